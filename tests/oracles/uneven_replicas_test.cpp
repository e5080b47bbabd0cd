// Blocks of R_k replicas each must end with the weights of as many layers of
// LibTorch's own in one plain loop: every batch of a turn goes through the copy
// of each block that its number names, and all copies of a block step by the
// mean of all gradients of the turn (parallel.md, A1 and C4). No seats, no
// messages, no schedule.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/runs/seats/seat_sources.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::uneven_oracle_test {

constexpr std::int64_t kTurns = 30;
constexpr std::int64_t kBatchSize = 16;
// Powers of two, whose products are exact: a step has the same bits however
// ATen computes it.
constexpr double kRate = 0.0625;
constexpr double kMomentum = 0.5;
constexpr double kApart = 1e-3;

using Counts = std::vector<int>;

/// A copy of a block: its layers, the head at its cut, and SGD with momentum.
struct Copy {
  std::vector<torch::nn::Linear> layers;
  std::vector<std::string> names;
  Tensors weights = {};
  Tensors velocities = {};
  Tensors sums = {};  // of the turn's gradients

  void add(const std::string& name, int from, int to) {
    layers.emplace_back(from, to);
    for (const char* part : {"weight", "bias"}) {
      weights.push_back(layers.back()->named_parameters()[part]);
      velocities.push_back(at::zeros_like(weights.back()));
      names.push_back(name + "." + part);
    }
  }

  void collect(const Tensors& gradients) {
    if (sums.empty()) {
      sums = gradients;
      return;
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = sums[i] + gradients[i];
  }
};

/// Two blocks: a linear layer, with a head where the loss is local; and two.
class PlainCopies {
 public:
  PlainCopies(const Training& of, bool is_local, const Counts& counts)
      : is_local_(is_local), source_(training_source(of.experiment)) {
    const NamedTensors first = of.weights();
    const std::map<std::string, at::Tensor> by_name(first.begin(), first.end());
    const at::NoGradGuard no_grad;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      blocks_.emplace_back();
      for (int r = 0; r < counts[k]; ++r) {
        Copy copy;
        if (k == 0) {
          copy.add("layers.0.linear", 784, 24);
          if (is_local) copy.add("heads.0.classifier", 24, 10);
        } else {
          copy.add("layers.1.linear", 24, 20);
          copy.add("layers.2.linear", 20, 10);
        }
        for (std::size_t i = 0; i < copy.weights.size(); ++i)
          copy.weights[i].copy_(by_name.at(copy.names[i]));
        blocks_.back().push_back(std::move(copy));
      }
      in_turn_ = std::max<std::int64_t>(in_turn_, counts[k]);
    }
  }

  void train() {
    for (std::int64_t turn = 0; turn < kTurns; ++turn) {
      double samples = 0;
      for (std::int64_t b = turn * in_turn_; b < (turn + 1) * in_turn_; ++b)
        samples += static_cast<double>(source_->batch(b).labels.size(0));
      for (std::int64_t b = turn * in_turn_; b < (turn + 1) * in_turn_; ++b)
        go_through(b, samples);
      for (std::vector<Copy>& copies : blocks_) step(copies);
    }
  }

  /// By Sluice's names; of a block that has fewer copies nothing.
  NamedTensors weights(int replica) const {
    NamedTensors all;
    for (const std::vector<Copy>& copies : blocks_) {
      if (replica > std::ssize(copies)) continue;
      const Copy& copy = copies[static_cast<std::size_t>(replica) - 1];
      for (std::size_t i = 0; i < copy.weights.size(); ++i)
        all.emplace_back(copy.names[i], copy.weights[i].detach());
    }
    return all;
  }

 private:
  static Copy& of_batch(std::vector<Copy>& copies, std::int64_t batch) {
    return copies[static_cast<std::size_t>(batch) % copies.size()];
  }

  /// samples: of the turn, of which the batch's count as much as others'.
  void go_through(std::int64_t b, double samples) {
    const Batch batch = source_->batch(b);
    const double weight = static_cast<double>(in_turn_) *
                          static_cast<double>(batch.labels.size(0)) / samples;
    Copy& lower = of_batch(blocks_[0], b);
    Copy& upper = of_batch(blocks_[1], b);
    const at::Tensor features =
        at::relu(lower.layers[0](batch.inputs.flatten(1)));
    const at::Tensor taken = is_local_ ? features.detach() : features;
    at::Tensor loss = at::cross_entropy_loss(
        upper.layers[1](at::relu(upper.layers[0](taken))), batch.labels);
    if (is_local_)
      loss = loss +
             at::cross_entropy_loss(lower.layers[1](features), batch.labels);
    Tensors wanted = lower.weights;
    wanted.insert(wanted.end(), upper.weights.begin(), upper.weights.end());
    Tensors all = torch::autograd::grad({loss}, wanted);
    for (at::Tensor& gradient : all) gradient = gradient * weight;
    const auto middle =
        all.begin() + static_cast<std::ptrdiff_t>(lower.weights.size());
    const at::NoGradGuard no_grad;
    lower.collect({all.begin(), middle});
    upper.collect({middle, all.end()});
  }

  /// First each copy's own sum, then these in their order.
  void step(std::vector<Copy>& copies) const {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < copies.front().weights.size(); ++i) {
      at::Tensor sum = copies.front().sums[i];
      for (std::size_t r = 1; r < copies.size(); ++r)
        sum = sum + copies[r].sums[i];
      const at::Tensor mean = sum / static_cast<double>(in_turn_);
      for (Copy& copy : copies) {
        copy.velocities[i].mul_(kMomentum).add_(mean);
        copy.weights[i].sub_(copy.velocities[i], kRate);
      }
    }
    for (Copy& copy : copies) copy.sums.clear();
  }

  bool is_local_;
  std::unique_ptr<SampleSource> source_;
  std::vector<std::vector<Copy>> blocks_;
  std::int64_t in_turn_ = 1;
};

class UnevenOracle : public testing::TestWithParam<std::tuple<bool, Counts>> {
 protected:
  Training training(const std::string& count) const {
    return Training(small_experiment(fmt::format(
        "turns = {}\nbatch_size = {}\ndata = {{train = 74, test = 16}}\n"
        "model = {{hidden = [24, 20]}}\nblocks = ['0', '1-']\n"
        "optimizer = {{name = 'sgd', lr = {}, momentum = {}}}\n"
        "boundary = {{{}}}\nreplicas = {{count = {}}}\n",
        kTurns, kBatchSize, kRate, kMomentum,
        is_local ? "policy = 'local_loss', head = {name = 'linear'}"
                 : "policy = 'backprop'",
        count)));
  }
  PlainCopies trained_oracle(const Counts& of) const {
    PlainCopies oracle(training("1"), is_local, of);
    oracle.train();
    return oracle;
  }

  const bool is_local = std::get<0>(GetParam());
  const Counts counts = std::get<1>(GetParam());
};

TEST_P(UnevenOracle, WeightsOfAllReplicasAreThoseOfThePlainLoop) {
  const PlainCopies oracle = trained_oracle(counts);
  Training run = training(fmt::format("[{}]", fmt::join(counts, ", ")));
  run.train();
  const PlainCopies one = trained_oracle({1, 1});
  for (int replica = 1; replica <= run.experiment.replicas.count; ++replica) {
    const NamedTensors weights = run.weights(replica);
    EXPECT_EQ(difference(weights, oracle.weights(replica)), "")
        << "replica " << replica;
    // What a run would come to that gave each turn one batch.
    EXPECT_GT(distance(weights, one.weights(1)), kApart)
        << "replica " << replica;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Counts, UnevenOracle,
    testing::Combine(testing::Bool(),
                     testing::Values(Counts{2, 1}, Counts{1, 2}, Counts{3, 1},
                                     Counts{4, 2}, Counts{2, 4})));

}  // namespace sluice::uneven_oracle_test
