// Replicas that share their weights must end where plain tensors do that are
// read and added to in the order that the virtual clock gives: no seats, no
// messages, no atomic operations. The label is that of the specification
// (parallel, section A6).
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/runs/seats/seat_sources.h"
#include "lib/schedules/simulation/costs.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::shared_weights_oracle_test {

constexpr int kReplicas = 3;
constexpr std::int64_t kTurns = 30;
constexpr double kRate = 0.0625;
constexpr double kMomentum = 0.5;

/// By Sluice's names.
using Weights = std::map<std::string, at::Tensor>;

/// Block of a tensor: the first of three linear layers is below the cut.
int block_of(const std::string& name) {
  return name.starts_with("layers.0.") ? 1 : 2;
}

at::Tensor linear(const Weights& weights, int layer, const at::Tensor& inputs) {
  const std::string name = fmt::format("layers.{}.linear.", layer);
  return at::linear(inputs, weights.at(name + "weight"),
                    weights.at(name + "bias"));
}

Weights gradients_at(const Weights& weights, const Batch& batch) {
  Weights leaves;
  Tensors order;
  for (const auto& [name, weight] : weights) {
    leaves[name] = weight.detach().clone().requires_grad_();
    order.push_back(leaves[name]);
  }
  const at::Tensor first = at::relu(linear(leaves, 0, batch.inputs.flatten(1)));
  const at::Tensor second = at::relu(linear(leaves, 1, first));
  const at::Tensor loss =
      at::cross_entropy_loss(linear(leaves, 2, second), batch.labels);
  const auto found = torch::autograd::grad({loss}, order);
  Weights gradients;
  std::size_t next = 0;
  for (const auto& [name, weight] : weights) gradients[name] = found[next++];
  return gradients;
}

/// A replica: what it computes on, its velocities, and the gradients of its
/// turn.
struct Replica {
  Weights weights = {};
  Weights velocities = {};
  Weights gradients = {};
};

/// A6, with a batch to an update.
class PlainHogwild {
 public:
  explicit PlainHogwild(const Training& of)
      : source_(training_source(of.experiment)), replicas_(kReplicas) {
    for (const auto& [name, weight] : of.weights()) {
      shared_[name] = weight.detach().clone();
      for (Replica& each : replicas_) {
        each.weights[name] = shared_[name];
        each.velocities[name] = at::zeros_like(weight);
      }
    }
  }

  /// r from 0.
  void reads(int r, int block, std::int64_t turn) {
    Replica& mine = replicas_.at(static_cast<std::size_t>(r));
    for (const auto& [name, weight] : shared_)
      if (block_of(name) == block) mine.weights[name] = weight;
    // Block 1 read before it, and has not gone backward yet.
    if (block == 2)
      mine.gradients =
          gradients_at(mine.weights, source_->batch(turn * kReplicas + r));
  }

  void adds(int r, int block) {
    Replica& mine = replicas_.at(static_cast<std::size_t>(r));
    for (auto& [name, weight] : shared_) {
      if (block_of(name) != block) continue;
      if (!weight.equal(mine.weights[name])) ++raced_;
      at::Tensor& velocity = mine.velocities[name];
      velocity = kMomentum * velocity + mine.gradients[name];
      weight = weight - kRate * velocity;
      mine.weights[name] = mine.weights[name] - kRate * velocity;
    }
  }

  NamedTensors weights_of(int r) const {
    const Weights& mine = replicas_.at(static_cast<std::size_t>(r)).weights;
    return {mine.begin(), mine.end()};
  }
  /// Tensors that others had moved between its reading and its adding.
  std::int64_t raced() const { return raced_; }

 private:
  std::unique_ptr<SampleSource> source_;
  Weights shared_;
  std::vector<Replica> replicas_;
  std::int64_t raced_ = 0;
};

std::string lines_of(int replicas) {
  return fmt::format(
      "turns = {}\nbatch_size = 16\nevaluate_every = 0.0\ndata = {{train = 74, "
      "test = 16}}\n"
      "model = {{hidden = [24, 20]}}\nblocks = ['0', '1-']\n"
      "optimizer = {{name = 'sgd', lr = {}, momentum = {}}}\n"
      "replicas = {{count = {}, policy = 'shared'}}\n",
      kTurns, kRate, kMomentum, replicas);
}

/// A machine on which replicas are neither equally fast nor steady.
Costs uneven() {
  Costs costs{.jitter = 0.3, .seed = 7};
  for (int r = 0; r < kReplicas; ++r)
    for (int block = 1; block <= 2; ++block)
      costs.blocks.push_back({.seconds = {{Op::forward, 1.0},
                                          {Op::backward, 2.0},
                                          {Op::update, 0.5}},
                              .slowness = 1 + 0.4 * r});
  return costs;
}

TEST(SharedWeightsOracle, FollowsTheOrderOfTheClock) {
  Training run(small_experiment(lines_of(kReplicas)));
  PlainHogwild oracle{Training(small_experiment(lines_of(1)))};
  std::vector<TimedAction> order;
  run.watch = [&](const TimedAction& timed) { order.push_back(timed); };
  run.train(uneven());
  for (const TimedAction& timed : order) {
    const int r = (timed.seat - 1) / 2;
    const int block = (timed.seat - 1) % 2 + 1;
    if (timed.action.op == Op::forward)
      oracle.reads(r, block, timed.action.turn);
    if (timed.action.op == Op::update) oracle.adds(r, block);
  }
  for (int r = 0; r < kReplicas; ++r)
    EXPECT_LT(distance(run.weights(r + 1), oracle.weights_of(r)), 1e-5) << r;
  EXPECT_GT(oracle.raced(), kTurns);
}

TEST(SharedWeightsOracle, WouldSeeAnotherOrder) {
  Training run(small_experiment(lines_of(kReplicas)));
  run.train(uneven());
  PlainHogwild in_turns{Training(small_experiment(lines_of(1)))};
  for (std::int64_t turn = 0; turn < kTurns; ++turn)
    for (int r = 0; r < kReplicas; ++r) {
      for (const int block : {1, 2}) in_turns.reads(r, block, turn);
      for (const int block : {2, 1}) in_turns.adds(r, block);
    }
  EXPECT_GT(distance(run.weights(1), in_turns.weights_of(0)), 1e-4);
  // Without a clock that is the order.
  Training timeless(small_experiment(lines_of(kReplicas)));
  timeless.train();
  for (int r = 0; r < kReplicas; ++r)
    EXPECT_LT(distance(timeless.weights(r + 1), in_turns.weights_of(r)), 1e-5);
}

}  // namespace sluice::shared_weights_oracle_test
