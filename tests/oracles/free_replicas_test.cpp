// Replicas with clocks of their own must end with the weights of networks in a
// plain loop that takes their pushes in the recorded order: no seats, no
// messages, no schedule. Labels are those of the specification (parallel,
// sections A4, A5, A9, A10, A11, B).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/runs/seats/seat_sources.h"
#include "lib/schedules/plan/peers.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_mlp.h"

namespace sluice::free_replica_oracle_test {

using plain_mlp::copied;
using plain_mlp::gradients_at;
using plain_mlp::kMomentum;
using plain_mlp::kRate;
using plain_mlp::SgdWeights;
using plain_mlp::Visit;

constexpr std::int64_t kTurns = 20;
constexpr double kStrength = 0.5;

enum class Kind {
  server,
  compensated,
  slower,
  elastic,
  pairs,
  partners,
  movements,
  neighbours
};

struct Case {
  const char* name = "";
  Kind kind = Kind::server;
  const char* policy = "'server'";
  const char* correction = "";
  double tolerance = 0;  ///< 0: the same bits
  int replicas = 3;
};

void PrintTo(const Case& of, std::ostream* out) {
  *out << of.name;
}

constexpr Case kCases[] = {
    {.name = "Downpour"},
    {.name = "DcAsgd",
     .kind = Kind::compensated,
     .correction =
         ", correction = {name = 'delay_compensation', strength = 0.5}"},
    // Divided by 3, say, a rate is no power of two.
    {.name = "StalenessAware",
     .kind = Kind::slower,
     .correction = ", correction = {name = 'staleness_aware'}",
     .tolerance = 1e-6},
    {.name = "AsynchronousEasgd",
     .kind = Kind::elastic,
     .policy = "'elastic', one_by_one = true, beta = 0.75"},
    {.name = "DelayedNesterov",
     .kind = Kind::movements,
     .policy = "'server', push = 'movement', outer_lr = 0.5, outer_momentum = "
               "0.75, outer_every = 3",
     .tolerance = 1e-6},
    {.name = "AdPsgd",
     .kind = Kind::pairs,
     .policy = "'gossip', pairs = true",
     .replicas = 4},
    {.name = "AdPsgdOverItsLinks",
     .kind = Kind::partners,
     .policy = "'gossip', pairs = true, meet_at = 'partner'",
     .replicas = 4},
    {.name = "NearestNeighbours",
     .kind = Kind::neighbours,
     .policy = "'neighbours', graph = 'ring'",
     .replicas = 4}};

Training training(const Case& of, int replicas) {
  std::string lines = fmt::format(
      "turns = {}\nbatch_size = 16\ndata = {{train = 64, test = 16}}\n"
      "model = {{hidden = [24, 20]}}\nblocks = 1\nschedule = 'free'\nseed = 1\n"
      "optimizer = {{name = 'sgd', lr = {}, momentum = {}{}}}\n",
      kTurns, kRate, kMomentum, of.correction);
  if (replicas > 1)
    lines +=
        fmt::format("replicas = {{count = {}, deal = 'shares', policy = {}}}\n",
                    replicas, of.policy);
  return Training(small_experiment(lines));
}

/// In the order in which the centre serves them.
class PlainCentre {
 public:
  PlainCentre(const Case& of, const Tensors& first)
      : kind_(of.kind),
        server_(first),
        pulled_(static_cast<std::size_t>(of.replicas), 0) {
    for (int replica = 0; replica < of.replicas; ++replica) {
      replicas_.emplace_back(first);
      taught_.emplace_back(first);
      mixed_.push_back(copied(first));
    }
  }

  void visit(std::size_t r, Tensors gradients) {
    const at::NoGradGuard no_grad;
    if (kind_ == Kind::elastic) return pull(r, gradients);
    if (kind_ == Kind::pairs) return meet(r, gradients);
    if (kind_ == Kind::partners) return visit_partner(r, gradients);
    if (kind_ == Kind::movements) return push(r, gradients);
    if (kind_ == Kind::neighbours) return teach(r, gradients);
    if (kind_ == Kind::compensated)
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        const at::Tensor moved = server_.weights[i] - replicas_[r].weights[i];
        gradients[i] =
            gradients[i] + kStrength * (moved * gradients[i] * gradients[i]);
      }
    const auto late = static_cast<double>(served_ - pulled_[r]);
    server_.step(gradients,
                 kind_ == Kind::slower ? kRate / std::max(1.0, late) : kRate);
    replicas_[r].weights = copied(server_.weights);
    pulled_[r] = ++served_;
  }

  const Tensors& weights(std::size_t r) const { return replicas_[r].weights; }

 private:
  /// A4: e = alpha (x - c); c += e; x -= e, after the step by the gradient.
  void pull(std::size_t r, const Tensors& gradients) {
    const double alpha = 0.75 / static_cast<double>(replicas_.size());
    Tensors moves;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      moves.push_back((replicas_[r].weights[i] - server_.weights[i]) * alpha);
      server_.weights[i] = server_.weights[i] + moves[i];
    }
    replicas_[r].step(gradients);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      replicas_[r].weights[i].sub_(moves[i]);
  }

  /// H3: w -= rate g / N; after N pushes m = beta m + mean g, w -= rate beta m.
  void push(std::size_t r, const Tensors& gradients) {
    constexpr double kOuterRate = 0.5;
    constexpr double kBeta = 0.75;
    constexpr std::int64_t kPushes = 3;
    const Tensors before = copied(replicas_[r].weights);
    replicas_[r].step(gradients);
    const bool is_milestone = ++served_ % kPushes == 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const at::Tensor moved = (before[i] - replicas_[r].weights[i]) / kPushes;
      at::Tensor& weight = server_.weights[i];
      weight = weight - kOuterRate * moved;
      if (pushed_.size() <= i) pushed_.push_back(at::zeros_like(moved));
      pushed_[i] = pushed_[i] + moved;
      if (!is_milestone) continue;
      at::Tensor& momentum = server_.velocities[i];
      momentum = kBeta * momentum + pushed_[i];
      weight = weight - kOuterRate * kBeta * momentum;
      pushed_[i] = at::zeros_like(moved);
    }
    replicas_[r].weights = copied(server_.weights);
  }

  /// B: a step of its own and of both on either side of the ring.
  void teach(std::size_t r, const Tensors& gradients) {
    const std::size_t count = taught_.size();
    for (const std::size_t each : {r, (r + count - 1) % count, (r + 1) % count})
      taught_[each].step(gradients);
    replicas_[r].weights = copied(taught_[r].weights);
  }

  /// A9: x and that of a neighbour become their mean; then the step by the
  /// gradient at what x was when the replica last looked.
  void meet(std::size_t r, const Tensors& gradients) {
    const PeerGraph graph{.shape = PeerShape::ring, .pairs = true, .seed = 1};
    const int other = drawn_neighbour(graph, static_cast<int>(replicas_.size()),
                                      static_cast<int>(r) + 1, pulled_[r]++);
    Tensors& its = mixed_[static_cast<std::size_t>(other) - 1];
    const Tensors before = copied(replicas_[r].weights);
    replicas_[r].step(gradients);
    for (std::size_t i = 0; i < its.size(); ++i) {
      const at::Tensor mean = (mixed_[r][i] + its[i]) * 0.5;
      its[i] = mean;
      mixed_[r][i] = mean + (replicas_[r].weights[i] - before[i]);
    }
    replicas_[r].weights = copied(mixed_[r]);
  }

  /// A9, section 3 of the paper: replicas 1 and 3 visit, and have x to
  /// themselves; 2 and 4 find what these have made of theirs.
  void visit_partner(std::size_t r, const Tensors& gradients) {
    const PeerGraph graph{.shape = PeerShape::ring, .pairs = true, .seed = 1};
    const int other = drawn_neighbour(graph, static_cast<int>(replicas_.size()),
                                      static_cast<int>(r) + 1, pulled_[r]++);
    Tensors& its = mixed_[r % 2 == 1 ? r : static_cast<std::size_t>(other) - 1];
    Tensors& mine = replicas_[r].weights;
    const Tensors before = copied(mine);
    replicas_[r].step(gradients);
    for (std::size_t i = 0; i < its.size(); ++i) {
      const at::Tensor update = mine[i] - before[i];
      if (r % 2 == 1) {
        its[i] = its[i] + update;
        mine[i] = its[i].clone();
      } else {
        its[i] = (its[i] + before[i]) * 0.5;
        mine[i] = its[i] + update;
      }
    }
  }

  Kind kind_;
  SgdWeights server_;
  std::vector<SgdWeights> replicas_;  // as each has seen itself last
  std::vector<Tensors> mixed_;        // as others have left it
  std::vector<SgdWeights> taught_;    // of neighbours
  Tensors pushed_;                    // since the momentum moved last
  std::int64_t served_ = 0;
  /// After how many pushes; of pairs, how often each came.
  std::vector<std::int64_t> pulled_;
};

class FreeReplicaOracle : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Rules, FreeReplicaOracle, testing::ValuesIn(kCases),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST_P(FreeReplicaOracle, DrivenByTheRecordedOrderHasTheSameWeights) {
  const Case of = GetParam();
  Training run = training(of, of.replicas);
  const Tensors first = plain_mlp::weights_in(run);
  std::map<std::int64_t, Visit> visits;  // by place; of several centres as
                                         // the clock has them
  run.watch = [&](const TimedAction& timed) {
    if (timed.action.arrived == 0) return;
    const std::int64_t place = of.kind == Kind::partners
                                   ? std::ssize(visits) + 1
                                   : timed.action.arrived;
    visits[place] = {static_cast<std::size_t>(timed.seat) - 1,
                     timed.action.batch};
  };
  Costs costs{.jitter = 0.7, .seed = 11};
  for (const double slowness : {1.0, 2.6, 1.2, 1.1})
    costs.blocks.push_back({.seconds = {{Op::forward, 1}, {Op::backward, 2}},
                            .slowness = slowness});
  run.train(costs);
  ASSERT_EQ(visits.size(), static_cast<std::size_t>(of.replicas * kTurns));

  const auto source = training_source(training(of, 1).experiment);
  PlainCentre centre(of, first);
  bool is_round_robin = true;
  for (const auto& [place, visit] : visits) {
    const auto batch = source->batch(visit.turn * of.replicas +
                                     static_cast<std::int64_t>(visit.replica));
    centre.visit(visit.replica,
                 gradients_at(centre.weights(visit.replica), batch));
    is_round_robin =
        is_round_robin &&
        (place - 1) % of.replicas == static_cast<std::int64_t>(visit.replica);
  }
  EXPECT_FALSE(is_round_robin) << "or lockstep would do";

  for (std::size_t r = 0; r < static_cast<std::size_t>(of.replicas); ++r) {
    const NamedTensors weights = run.weights(static_cast<int>(r) + 1);
    const NamedTensors expected = plain_mlp::named(centre.weights(r));
    if (of.tolerance == 0) {
      EXPECT_EQ(difference(weights, expected), "") << "replica " << r + 1;
    } else {
      EXPECT_LT(distance(weights, expected), of.tolerance) << r + 1;
    }
  }
}

}  // namespace sluice::free_replica_oracle_test
