// Mixing of weights: what it keeps, and what it brings together.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/plan/peers.h"
#include "lib/tensors/sums.h"

namespace sluice::gossip_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kElements = 5;
const at::Tensor kStart = at::arange(kElements, at::kDouble);

using Option = std::pair<const char*, std::variant<bool, std::string>>;
using Options = std::vector<Option>;

ReplicaKind kind_of(const Options& options) {
  ConfigNode config{.value = ConfigNode::Table{}};
  for (const auto& [key, value] : options)
    std::visit([&, name = key](auto of) { config.set(name, {.value = of}); },
               value);
  Fields fields(&config, "replicas");
  return find_row(replica_policies(), "gossip", "replica policy").make(fields);
}

std::vector<Tensors> some_weights(std::size_t count) {
  at::manual_seed(7);
  std::vector<Tensors> all;
  for (std::size_t r = 0; r < count; ++r)
    all.push_back({kStart + at::randn(kElements, at::kDouble)});
  return all;
}

Tensors sum_of(const std::vector<Tensors>& all) {
  return sum_in_order(all);
}

double apart(const at::Tensor& left, const at::Tensor& right) {
  return (left - right).abs().max().item<double>();
}

/// How far the replica furthest from the mean is from it.
double disagreement(const std::vector<Tensors>& all) {
  const at::Tensor mean = sum_of(all)[0] / static_cast<double>(all.size());
  double most = 0;
  for (const Tensors& each : all) most = std::max(most, apart(each[0], mean));
  return most;
}

/// Replicas that begin with the same weights, and policies of theirs.
class Replicas {
 public:
  Replicas(std::size_t count, const Options& options)
      : kind_(kind_of(options)), weights_(count, Tensors{kStart.clone()}) {
    for (std::size_t r = 0; r < count; ++r) {
      policies_.push_back(
          kind_
              .make({{"w", kStart}}, {.member = static_cast<int>(r) + 1,
                                      .members = static_cast<int>(count)})
              .policy);
      policies_.back()->begin({kStart});
    }
  }

  /// Updates that move them so far.
  void move(const std::vector<Tensors>& by) {
    for (std::size_t r = 0; r < by.size(); ++r)
      weights_[r][0] = weights_[r][0] + by[r][0];
  }

  void exchange(std::int64_t number) {
    const auto members = static_cast<int>(weights_.size());
    std::vector<Tensors> published;
    for (std::size_t r = 0; r < weights_.size(); ++r)
      published.push_back(policies_[r]->offer(weights_[r]));
    for (int member = 1; member <= members; ++member) {
      const Peers peers =
          peers_of(kind_.exchange.graph, members, member, number);
      Mixture mixture{.parts = std::ssize(peers.to) + 1};
      for (int each = 1; each <= members; ++each) {
        const bool is_taken =
            each == member || std::find(peers.from.begin(), peers.from.end(),
                                        each) != peers.from.end();
        if (each == member) mixture.own = mixture.published.size();
        if (is_taken)
          mixture.published.push_back(
              published[static_cast<std::size_t>(each) - 1]);
      }
      const auto r = static_cast<std::size_t>(member) - 1;
      const Tensors combined = policies_[r]->combine(weights_[r], mixture);
      weights_[r] = kind_.exchange.what == ExchangedTensors::old_weights
                        ? Tensors{weights_[r][0] + combined[0]}
                        : combined;
    }
  }

  const std::vector<Tensors>& weights() const { return weights_; }
  ReplicaPolicy& policy(std::size_t r) { return *policies_[r]; }
  /// What the evaluation of a run would have.
  at::Tensor consensus() const {
    std::vector<Tensors> agreed;
    for (std::size_t r = 0; r < weights_.size(); ++r)
      agreed.push_back(policies_[r]->agreed(weights_[r]));
    return policies_[0]->consensus(mean_in_order(agreed))[0];
  }

 private:
  ReplicaKind kind_;
  std::vector<std::shared_ptr<ReplicaPolicy>> policies_;
  std::vector<Tensors> weights_;
};

const std::string kAfter = "after";

std::vector<Options> doubly_stochastic() {
  std::vector<Options> all;
  for (const char* graph : {"ring", "torus", "complete", "exponential", "hops"})
    for (const char* mix : {"before", "after"})
      all.push_back({{"graph", std::string(graph)}, {"mix", std::string(mix)}});
  all.push_back({{"pairs", true}});
  all.push_back(
      {{"graph", std::string("hops")}, {"rotate", true}, {"mix", kAfter}});
  return all;
}

TEST(Gossip, KeepsTheMean) {
  for (const Options& options : doubly_stochastic()) {
    Replicas replicas(6, options);
    replicas.move(some_weights(6));
    const at::Tensor before = sum_of(replicas.weights())[0];
    for (std::int64_t number = 0; number < 7; ++number)
      replicas.exchange(number);
    EXPECT_LT(apart(sum_of(replicas.weights())[0], before), 1e-11);
  }
}

// A8: the mean goes by the mean of the steps, whatever the graph, though each
// replica is elsewhere.
TEST(Gossip, MovesTheMeanByTheMeanOfTheSteps) {
  for (const Options& options : doubly_stochastic()) {
    Replicas replicas(6, options);
    at::Tensor expected = sum_of(replicas.weights())[0];
    for (std::int64_t number = 0; number < 5; ++number) {
      std::vector<Tensors> steps = some_weights(6);
      for (std::size_t r = 0; r < steps.size(); ++r)
        steps[r][0] = steps[r][0] * static_cast<double>(number + 1);
      replicas.move(steps);
      expected = expected + sum_of(steps)[0];
      const std::vector<Tensors> before = replicas.weights();
      replicas.exchange(number);
      EXPECT_LT(apart(sum_of(replicas.weights())[0], expected), 1e-9);
      double most = 0;
      for (std::size_t r = 0; r < before.size(); ++r)
        most = std::max(most, apart(replicas.weights()[r][0], before[r][0]));
      EXPECT_GT(most, 0.1) << "nobody was mixed";
    }
  }
}

TEST(Gossip, BringsReplicasTogetherThatDoNotLearn) {
  for (const Options& options : doubly_stochastic()) {
    Replicas replicas(6, options);
    replicas.move(some_weights(6));
    double before = disagreement(replicas.weights());
    EXPECT_GT(before, 0.5);
    for (std::int64_t number = 0; number < 60; ++number) {
      replicas.exchange(number);
      EXPECT_LE(disagreement(replicas.weights()), before + 1e-12);
      before = disagreement(replicas.weights());
    }
    EXPECT_LT(before, 1e-3);
  }
}

TEST(Gossip, OnTheCompleteGraphIsTheMeanOfAll) {
  Replicas replicas(5, {{"graph", std::string("complete")}, {"mix", kAfter}});
  replicas.move(some_weights(5));
  const at::Tensor mean = mean_in_order(replicas.weights())[0];
  replicas.exchange(0);
  for (const Tensors& each : replicas.weights())
    EXPECT_TRUE(each[0].equal(mean));
}

TEST(Gossip, OnARingIsAThirdOfThree) {
  Replicas replicas(5, {});
  replicas.move(some_weights(5));
  const std::vector<Tensors> before = replicas.weights();
  replicas.exchange(0);
  EXPECT_LT(apart(replicas.weights()[0][0],
                  (before[0][0] + before[1][0] + before[4][0]) / 3),
            1e-12);
  EXPECT_GT(apart(replicas.weights()[0][0],
                  sum_of(before)[0] / static_cast<double>(before.size())),
            1e-3);
}

Options push_on(const char* graph) {
  return {{"graph", std::string(graph)}, {"mix", kAfter}, {"push_sum", true}};
}

TEST(PushSum, KeepsTheSumsOfWeightsAndShares) {
  Replicas replicas(6, push_on("random"));
  double least = 1;
  double most = 1;
  for (std::int64_t number = 0; number < 12; ++number) {
    const at::Tensor before = replicas.consensus();
    const std::vector<Tensors> steps = some_weights(6);
    replicas.move(steps);
    // A step moves the mean by the mean of the steps, whatever the shares.
    EXPECT_LT(apart(replicas.consensus(), before + sum_of(steps)[0] / 6),
              1e-11);
    const at::Tensor moved = replicas.consensus();
    replicas.exchange(number);
    EXPECT_LT(apart(replicas.consensus(), moved), 1e-11);
    double shares = 0;
    for (std::size_t r = 0; r < 6; ++r) {
      const double share =
          replicas.policy(r).state().back().second.item<double>();
      shares += share;
      least = std::min(least, share);
      most = std::max(most, share);
    }
    EXPECT_NEAR(shares, 6, 1e-12);
  }
  EXPECT_LT(least, 0.6) << "nobody was sent less than others";
  EXPECT_GT(most, 1.4);
}

TEST(PushSum, BringsAllToTheMeanThatPlainSumsMiss) {
  Replicas replicas(6, push_on("random"));
  replicas.move(some_weights(6));
  const at::Tensor mean = sum_of(replicas.weights())[0] / 6;
  for (std::int64_t number = 0; number < 200; ++number)
    replicas.exchange(number);
  for (std::size_t r = 0; r < 6; ++r) {
    EXPECT_LT(apart(replicas.weights()[r][0], mean), 1e-9);
    const NamedTensors state = replicas.policy(r).state();
    const double share = state.back().second.item<double>();
    EXPECT_LT(apart(state.front().second, share * mean), 1e-9);
  }
}

TEST(PushSum, WhereAllGetTheSameIsGossip) {
  Replicas pushing(4, push_on("hops"));
  Replicas plain(4, {{"graph", std::string("hops")}, {"mix", kAfter}});
  for (std::int64_t number = 0; number < 5; ++number) {
    pushing.move(some_weights(4));
    plain.move(some_weights(4));
    pushing.exchange(number);
    plain.exchange(number);
    for (std::size_t r = 0; r < 4; ++r)
      EXPECT_TRUE(pushing.weights()[r][0].equal(plain.weights()[r][0]));
  }
}

void expect_rejected(const Options& options, const char* remedy) {
  EXPECT_THAT([&] { kind_of(options); },
              ThrowsMessage<UserError>(HasSubstr(remedy)));
}

TEST(Gossip, RefusesKeysThatDoNotGoTogether) {
  expect_rejected({{"graph", std::string("random")}}, "push_sum = true");
  expect_rejected({{"push_sum", true}}, "mix = 'after'");
  expect_rejected({{"graph", std::string("hops")}, {"pairs", true}},
                  "graph = 'ring'");
  expect_rejected({{"rotate", true}}, "graph = 'hops'");
  expect_rejected({{"graph", std::string("star")}}, "ring");
}

}  // namespace sluice::gossip_test
