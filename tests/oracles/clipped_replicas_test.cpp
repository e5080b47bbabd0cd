// Replicas of blocks that clip by the norm of the whole model, against uncut
// networks of LibTorch's own modules in one plain loop.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/runs/seats/seat_sources.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_loop.h"
#include "tests/oracles/plain_net.h"

namespace sluice::clipped_replicas_test {

constexpr std::int64_t kTurns = 30;
constexpr double kRate = 0.0625;
constexpr double kLimit = 0.25;
constexpr double kEqual = 1e-5;  // up to the order of sums
constexpr double kApart = 1e-4;

/// As torch.nn.utils.clip_grad_norm_ does.
Tensors clipped(const Tensors& gradients) {
  double squares = 0;
  for (const at::Tensor& gradient : gradients)
    squares += gradient.to(at::kDouble).square().sum().item<double>();
  const double factor = std::min(1.0, kLimit / (std::sqrt(squares) + 1e-6));
  Tensors all;
  for (const at::Tensor& gradient : gradients) all.push_back(gradient * factor);
  return all;
}

using ReplicaTensors = std::vector<Tensors>;

Tensors mean_of(const ReplicaTensors& lists) {
  Tensors means;
  for (std::size_t i = 0; i < lists.front().size(); ++i) {
    at::Tensor sum = at::zeros_like(lists.front()[i]);
    for (const Tensors& list : lists) sum = sum + list[i];
    means.push_back(sum / static_cast<double>(lists.size()));
  }
  return means;
}

void step(Tensors& weights, const Tensors& gradients) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i].sub_(gradients[i], kRate);
}

void step_by_clipped_mean(ReplicaTensors& weights,
                          const ReplicaTensors& gradients) {
  for (Tensors& each : weights) step(each, clipped(mean_of(gradients)));
}

void step_by_mean_of_clipped(ReplicaTensors& weights,
                             const ReplicaTensors& gradients) {
  ReplicaTensors own;
  for (const Tensors& each : gradients) own.push_back(clipped(each));
  for (Tensors& each : weights) step(each, mean_of(own));
}

void step_and_average(ReplicaTensors& weights,
                      const ReplicaTensors& gradients) {
  for (std::size_t r = 0; r < weights.size(); ++r)
    step(weights[r], clipped(gradients[r]));
  const Tensors means = mean_of(weights);
  for (Tensors& each : weights)
    for (std::size_t i = 0; i < means.size(); ++i) each[i].copy_(means[i]);
}

/// Steps by the gradients of all: three or fewer on a ring are all neighbours.
void step_by_each(ReplicaTensors& weights, const ReplicaTensors& gradients) {
  for (Tensors& each : weights)
    for (const Tensors& one : gradients) step(each, clipped(one));
}

struct Case {
  std::string name;
  std::string replicas;  ///< keys of theirs
  std::string at;        ///< clip.at
  void (*step)(ReplicaTensors& weights, const ReplicaTensors& gradients);
  /// Gradients count by the samples of their batches, before they are clipped.
  bool by_samples = false;
};

void weigh_by_samples(const std::vector<double>& samples,
                      ReplicaTensors& gradients) {
  double all = 0;
  for (const double each : samples) all += each;
  for (std::size_t r = 0; r < samples.size(); ++r)
    for (at::Tensor& each : gradients[r])
      each = each * (static_cast<double>(samples.size()) * samples[r] / all);
}

void PrintTo(const Case& of, std::ostream* out) {
  *out << of.name;
}

std::string lines_of(const Case& of, int replicas, const std::string& blocks,
                     const std::string& clip) {
  return fmt::format(
      "turns = {}\nbatch_size = 16\ndata = {{train = 74, test = 16}}\n"
      "model = {{hidden = [24, 20]}}\nblocks = {}\n"
      "boundary = {{policy = 'backprop'}}\n"
      "optimizer = {{name = 'sgd', lr = {}, momentum = 0{}}}\n"
      "replicas = {{count = {}, {}}}\n",
      kTurns, blocks, kRate, clip, replicas, of.replicas);
}

std::string clip_of(const std::string& scope, const std::string& at) {
  return fmt::format(", clip = {{norm = {}, scope = '{}', at = '{}'}}", kLimit,
                     scope, at);
}

class ClippedReplicas : public testing::TestWithParam<Case> {
 protected:
  Training training(int replicas, const std::string& blocks,
                    const std::string& clip) const {
    return Training(
        small_experiment(lines_of(GetParam(), replicas, blocks, clip)));
  }

  NamedTensors trained(int replicas, const std::string& blocks,
                       const std::string& clip) const {
    Training run = training(replicas, blocks, clip);
    run.train();
    return copies_of(run.weights());
  }

  /// Weights of replica 1.
  NamedTensors by_plain_loop(int replicas) const {
    const Training start = training(replicas, "1", "");
    const auto source = training_source(start.experiment);
    std::vector<std::shared_ptr<PlainMlp>> nets;
    ReplicaTensors weights;
    for (int r = 0; r < replicas; ++r) {
      nets.push_back(std::make_shared<PlainMlp>(
          std::vector<std::int64_t>{784, 24, 20, 10}, false, 0));
      take_weights(*nets.back(), nets.back()->named(), start);
      weights.push_back(nets.back()->parameters());
    }
    for (std::int64_t turn = 0; turn < kTurns; ++turn) {
      ReplicaTensors gradients;
      std::vector<double> samples;
      for (std::size_t r = 0; r < nets.size(); ++r) {
        const Batch batch =
            source->batch(turn * replicas + static_cast<std::int64_t>(r));
        samples.push_back(static_cast<double>(batch.labels.size(0)));
        const at::Tensor outputs = nets[r]->forward(batch.inputs, 0, 0);
        gradients.push_back(torch::autograd::grad(
            {at::cross_entropy_loss(outputs, batch.labels)}, weights[r]));
      }
      const at::NoGradGuard no_grad;
      if (GetParam().by_samples) weigh_by_samples(samples, gradients);
      GetParam().step(weights, gradients);
    }
    return copies_of(nets.front()->named());
  }
};

INSTANTIATE_TEST_SUITE_P(
    Policies, ClippedReplicas,
    testing::Values(
        Case{"Sums", "policy = 'all_reduce'", "update", step_by_clipped_mean,
             true},
        Case{"OwnOnes", "policy = 'all_reduce'", "replica",
             step_by_mean_of_clipped, true},
        Case{"Shards", "shard = true", "update", step_by_clipped_mean, true},
        Case{"OwnOnesOfShards", "shard = true", "replica",
             step_by_mean_of_clipped, true},
        Case{"Averages", "policy = 'average', every = 1", "update",
             step_and_average},
        Case{"Neighbours", "policy = 'neighbours'", "update", step_by_each},
        Case{"OwnOnesOfNeighbours", "policy = 'neighbours'", "replica",
             step_by_each}),
    [](const auto& info) { return info.param.name; });

TEST_P(ClippedReplicas, EndWithTheWeightsOfThePlainLoop) {
  const std::string clip = clip_of("model", GetParam().at);
  for (const int replicas : {2, 3}) {
    const NamedTensors expected = by_plain_loop(replicas);
    for (const char* blocks : {"1", "['0', '1-']", "['0', '1', '2']"})
      EXPECT_LT(distance(trained(replicas, blocks, clip), expected), kEqual)
          << replicas << " replicas of " << blocks;
  }
}

TEST_P(ClippedReplicas, EndElsewhereThanBlocksThatClipAloneOrNotAtAll) {
  const NamedTensors expected = by_plain_loop(2);
  for (const std::string& other :
       {clip_of("block", GetParam().at), std::string()})
    EXPECT_GT(distance(trained(2, "['0', '1-']", other), expected), kApart)
        << other;
}

/// Where they exchange gradients, it matters whose are clipped.
TEST(ReplicasThatClip, EndElsewhereWhereEachClipsItsOwn) {
  const Case sums{"", "policy = 'all_reduce'", "", nullptr};
  const auto trained = [&](const std::string& at) {
    Training run(small_experiment(
        lines_of(sums, 2, "['0', '1-']", clip_of("model", at))));
    run.train();
    return copies_of(run.weights());
  };
  EXPECT_GT(distance(trained("update"), trained("replica")), kApart);
}

}  // namespace sluice::clipped_replicas_test
