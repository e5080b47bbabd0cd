// Replicas that wait at a centre for some of the others must end with the
// weights of networks in a plain loop that takes their pushes in the recorded
// order: no seats, no messages, no schedule. Labels are those of the
// specification (parallel, sections A1, A19 and H4).
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/runs/seats/seat_sources.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_mlp.h"

namespace sluice::quorum_oracle_test {

using plain_mlp::copied;
using plain_mlp::gradients_at;
using plain_mlp::kMomentum;
using plain_mlp::kParameters;
using plain_mlp::kRate;
using plain_mlp::SgdWeights;
using plain_mlp::Visit;
using plain_mlp::weights_in;

constexpr std::int64_t kTurns = 24;
constexpr std::size_t kReplicas = 3;

/// Updates of each replica between two averages.
struct Updates {
  const char* name = "";
  const char* key = "";
  std::array<std::int64_t, kReplicas> of_each = {};
};

void PrintTo(const Updates& updates, std::ostream* out) {
  *out << updates.key;
}

constexpr Updates kUpdates[] = {{"AsMany", "3", {3, 3, 3}},
                                {"BySpeed", "[3, 1, 2]", {3, 1, 2}}};

/// What a run has recorded, and trained.
struct RunRecording {
  std::map<std::int64_t, Visit> visits;  // by place
  std::set<std::int64_t> merges;         // after how many
  Tensors first;
  std::vector<Tensors> weights;  // by replica
};

Training training_of(const std::string& replicas) {
  return Training(small_experiment(fmt::format(
      "turns = {}\nbatch_size = 16\ndata = {{train = 64, test = 16}}\n"
      "model = {{hidden = [24, 20]}}\nblocks = 1\nseed = 1\n"
      "optimizer = {{name = 'sgd', lr = {}, momentum = {}}}\n{}",
      kTurns, kRate, kMomentum, replicas)));
}

RunRecording ran(const std::string& policy) {
  Training run =
      training_of(fmt::format("schedule = 'free'\nreplicas = {{count = {}, "
                              "deal = 'shares', policy = {}}}\n",
                              kReplicas, policy));
  RunRecording all;
  all.first = weights_in(run, 1);
  run.watch = [&](const TimedAction& timed) {
    const Action& action = timed.action;
    if (action.arrived == 0) return;
    if (action.kind == ExchangeKind::push)
      all.visits[action.arrived] = {static_cast<std::size_t>(timed.seat) - 1,
                                    action.batch};
    else
      all.merges.insert(action.arrived);
  };
  Costs costs{.jitter = 0.7, .seed = 11};
  for (const double slowness : {1.0, 3.1, 1.2})
    costs.blocks.push_back({.seconds = {{Op::forward, 1}, {Op::backward, 2}},
                            .slowness = slowness});
  run.train(costs);
  for (std::size_t r = 1; r <= kReplicas; ++r)
    all.weights.push_back(weights_in(run, static_cast<int>(r)));
  return all;
}

Tensors gradients_of(const Tensors& weights, std::int64_t turn,
                     std::size_t replica) {
  static const auto source = training_source(training_of("").experiment);
  return gradients_at(
      weights, source->batch(turn * static_cast<std::int64_t>(kReplicas) +
                             static_cast<std::int64_t>(replica)));
}

Tensors mean_of(const std::map<std::size_t, Tensors>& by_replica,
                const std::array<std::int64_t, kReplicas>& weights) {
  Tensors sums;
  std::int64_t all = 0;
  for (const auto& [replica, tensors] : by_replica) {
    const std::int64_t weight = weights.at(replica);
    all += weight;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (i == sums.size())
        sums.push_back(tensors[i] * weight);
      else
        sums[i] = sums[i] + tensors[i] * weight;
  }
  for (at::Tensor& sum : sums) sum = sum / all;
  return sums;
}

// A1: w(t+1) = w(t) - rate (1 / N) sum of the first N gradients of turn t.
TEST(QuorumOracle, DrivenByTheRecordedOrderHasTheSameWeights) {
  const RunRecording run = ran("'all_reduce', backup = 1");
  SgdWeights server(run.first);
  std::vector<Tensors> taken(kReplicas, copied(run.first));
  std::map<std::size_t, Tensors> came;
  std::int64_t steps = 0;
  std::int64_t dropped = 0;
  for (const auto& [place, visit] : run.visits) {
    const at::NoGradGuard no_grad;
    if (visit.turn < steps) {
      ++dropped;
      taken[visit.replica] = copied(server.weights);
      continue;
    }
    EXPECT_EQ(visit.turn, steps) << "it goes on with the turn that is due";
    {
      const at::AutoGradMode with_grad(true);
      came[visit.replica] =
          gradients_of(taken[visit.replica], visit.turn, visit.replica);
    }
    if (came.size() < kReplicas - 1) continue;
    server.step(mean_of(came, {1, 1, 1}));
    for (const auto& [replica, gradients] : came)
      taken[replica] = copied(server.weights);
    came.clear();
    ++steps;
  }
  EXPECT_EQ(steps, kTurns);
  EXPECT_TRUE(came.empty());
  EXPECT_GT(dropped, 3) << "or synchronous SGD would do";
  for (std::size_t r = 0; r < kReplicas; ++r)
    for (std::size_t i = 0; i < server.weights.size(); ++i)
      EXPECT_TRUE(run.weights[r][i].equal(server.weights[i]))
          << r + 1 << ": " << kParameters[i];
}

class QuorumOracleOfAverages : public testing::TestWithParam<Updates> {};
INSTANTIATE_TEST_SUITE_P(Updates, QuorumOracleOfAverages,
                         testing::ValuesIn(kUpdates), [](const auto& info) {
                           return std::string(info.param.name);
                         });

// A19, H4, decoupled: theta = Outer(theta, mean of the movements of those that
// have come, weighted by their updates), where a learner has moved since it
// took theta last.
TEST_P(QuorumOracleOfAverages, TakesMovementsOfThoseThatHaveCome) {
  const RunRecording run = ran(fmt::format(
      "'average', every = {}, quorum = 2, grace = 1.0, outer_lr = 0.75, "
      "outer_momentum = 0.5, outer_nesterov = true",
      GetParam().key));
  const at::NoGradGuard no_grad;
  Tensors centre = copied(run.first);
  Tensors outer;
  for (const at::Tensor& tensor : centre)
    outer.push_back(at::zeros_like(tensor));
  std::vector<SgdWeights> learners;
  for (std::size_t r = 0; r < kReplicas; ++r) learners.emplace_back(run.first);
  std::vector<Tensors> began(kReplicas, copied(run.first));
  std::vector<std::int64_t> next(kReplicas, 0);
  std::map<std::size_t, Tensors> movements;
  std::set<std::size_t> sizes;
  for (const auto& [place, visit] : run.visits) {
    const std::size_t r = visit.replica;
    SgdWeights& learner = learners[r];
    for (; next[r] <= visit.turn; ++next[r]) {
      Tensors gradients;
      {
        const at::AutoGradMode with_grad(true);
        gradients = gradients_of(learner.weights, next[r], r);
      }
      learner.step(gradients);
    }
    for (std::size_t i = 0; i < centre.size(); ++i)
      movements[r].push_back(learner.weights[i] - began[r][i]);
    if (!run.merges.contains(place)) continue;
    sizes.insert(movements.size());
    const Tensors mean = mean_of(movements, GetParam().of_each);
    for (std::size_t i = 0; i < centre.size(); ++i) {
      const at::Tensor gradient = -mean[i];
      outer[i] = outer[i] * 0.5 + gradient;
      centre[i] = centre[i] - 0.75 * (gradient + 0.5 * outer[i]);
    }
    for (const auto& [replica, moved] : movements) {
      learners[replica].weights = copied(centre);
      began[replica] = copied(centre);
    }
    movements.clear();
  }
  EXPECT_TRUE(movements.empty());
  EXPECT_TRUE(sizes.contains(2)) << "or an average of all would do";
  for (std::size_t r = 0; r < kReplicas; ++r) {
    EXPECT_EQ(next[r], kTurns);
    for (std::size_t i = 0; i < centre.size(); ++i)
      EXPECT_LT((run.weights[r][i] - learners[r].weights[i])
                    .abs()
                    .max()
                    .item<double>(),
                2e-6)
          << r + 1 << ": " << kParameters[i];
  }
}

}  // namespace sluice::quorum_oracle_test
