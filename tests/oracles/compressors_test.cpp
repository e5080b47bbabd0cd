// R replicas that compress their gradients must end with the weights of a plain
// loop over R gradients of LibTorch's autograd, which become what the papers
// say: no seats, no messages, no bytes.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/runs/seats/seat_sources.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_compressors.h"
#include "tests/oracles/plain_net.h"

namespace sluice::compressor_oracle_test {

constexpr std::int64_t kTurns = 30;
constexpr std::int64_t kBatchSize = 16;
// Powers of two: a step has the same bits with fused multiply-adds or without.
constexpr double kRate = 0.0625;
constexpr double kApart = 1e-3;

struct Method {
  std::string name;
  std::string options;
  MakePlainCompressor make;
  double momentum = 0.5;  ///< of the optimizer
  /// How far from the oracle's the weights may end; 0: the same bits.
  double tolerance = 0;
};

void PrintTo(const Method& method, std::ostream* out) {
  *out << method.name;
}

/// All replicas have the same weights, so there is one network.
class PlainTraining {
 public:
  /// `of`: a run with one replica, whose first weights it has.
  PlainTraining(const Training& of, const Method& method, int replicas,
                std::int64_t batches_per_epoch)
      : source_(training_source(of.experiment)),
        replicas_(replicas),
        momentum_(method.momentum),
        batches_per_epoch_(batches_per_epoch) {
    const at::NoGradGuard no_grad;
    const NamedTensors first = of.weights();
    const std::map<std::string, at::Tensor> by_name(first.begin(), first.end());
    for (const auto& [name, weight] : net_.named()) {
      weight.copy_(by_name.at(name));
      velocities_.push_back(at::zeros_like(weight));
      compressors_.push_back(method.make(
          {.name = name,
           .size = static_cast<std::size_t>(weight.numel()),
           .rows =
               static_cast<std::size_t>(weight.dim() > 1 ? weight.size(0) : 1),
           .replicas = static_cast<std::size_t>(replicas),
           .seed = of.experiment.seed}));
    }
  }

  void train() {
    for (std::int64_t turn = 0; turn < kTurns; ++turn) {
      std::vector<Batch> batches;
      double samples = 0;
      for (int r = 0; r < replicas_; ++r) {
        batches.push_back(source_->batch(turn * replicas_ + r));
        samples += static_cast<double>(batches.back().labels.size(0));
      }
      std::vector<Tensors> gradients;
      for (const Batch& batch : batches) {
        const double weight =
            replicas_ * static_cast<double>(batch.labels.size(0)) / samples;
        gradients.push_back(gradients_at(batch));
        for (at::Tensor& gradient : gradients.back())
          gradient = gradient * weight;
      }
      update(turn, gradients);
    }
  }

  NamedTensors weights() const {
    NamedTensors all;
    for (const auto& [name, weight] : net_.named())
      all.emplace_back(name, weight.detach());
    return all;
  }

 private:
  Tensors gradients_at(const Batch& batch) {
    return torch::autograd::grad(
        {at::cross_entropy_loss(net_.forward(batch.inputs, 1, 0),
                                batch.labels)},
        values_of(net_.named()));
  }

  void update(std::int64_t turn, const std::vector<Tensors>& gradients) {
    const at::NoGradGuard no_grad;
    const NamedTensors named = net_.named();
    const double epoch = static_cast<double>(turn * replicas_) /
                         static_cast<double>(batches_per_epoch_);
    for (std::size_t i = 0; i < named.size(); ++i) {
      std::vector<PlainCompressor::Numbers> of_each;
      for (const Tensors& each : gradients) {
        const at::Tensor line = each[i].contiguous();
        const float* first = line.const_data_ptr<float>();
        of_each.emplace_back(first, first + line.numel());
      }
      const PlainCompressor::Numbers sum =
          compressors_[i]->sum(of_each, turn, epoch);
      const at::Tensor whole = at::empty(named[i].second.sizes());
      std::copy(sum.begin(), sum.end(), whole.data_ptr<float>());
      velocities_[i].mul_(momentum_).add_(whole /
                                          static_cast<double>(replicas_));
      at::Tensor weight = named[i].second;
      weight.sub_(velocities_[i], kRate);
    }
  }

  PlainMlp net_{{784, 24, 20, 10}, false, 0};
  std::unique_ptr<SampleSource> source_;
  int replicas_;
  double momentum_;
  std::int64_t batches_per_epoch_;
  Tensors velocities_;
  std::vector<std::unique_ptr<PlainCompressor>> compressors_;
};

using Case = std::tuple<int, int, Method>;

class CompressorOracle : public testing::TestWithParam<Case> {
 protected:
  Training training(int count, const std::string& options) const {
    return Training(small_experiment(fmt::format(
        "turns = {}\nbatch_size = {}\ndata = {{train = 74, test = 16}}\n"
        "model = {{hidden = [24, 20]}}\nblocks = {}\n"
        "boundary = {{policy = 'backprop'}}\n"
        "optimizer = {{name = 'sgd', lr = {}, momentum = {}}}\n"
        "replicas = {{count = {}{}}}\n",
        kTurns, kBatchSize, blocks == 1 ? "1" : "['0', '1-']", kRate,
        method.momentum, count, options)));
  }

  const int replicas = std::get<0>(GetParam());
  const int blocks = std::get<1>(GetParam());
  const Method method = std::get<2>(GetParam());
};

TEST_P(CompressorOracle, WeightsOfAllReplicasAreThoseOfThePlainLoop) {
  Training run = training(replicas, ", compress = " + method.options);
  run.train();
  PlainTraining oracle(training(1, ""), method, replicas,
                       run.experiment.deals_per_epoch);
  oracle.train();
  for (int replica = 1; replica <= replicas; ++replica) {
    if (method.tolerance == 0) {
      EXPECT_EQ(difference(run.weights(replica), oracle.weights()), "");
    } else {
      EXPECT_LT(distance(run.weights(replica), oracle.weights()),
                method.tolerance);
    }
    EXPECT_EQ(difference(run.weights(replica), run.weights(1)), "");
  }
}

/// The inequality beside that equality.
class CompressedApart : public CompressorOracle {};

TEST_P(CompressedApart, WeightsAreNotThoseOfPlainSums) {
  Training run = training(replicas, ", compress = " + method.options);
  run.train();
  Training plain = training(replicas, "");
  plain.train();
  EXPECT_GT(distance(run.weights(), plain.weights()), kApart);
}

const Method kMethods[] = {
    {"TopK", "'top_k', ratio = 0.05", plain_top_k(0.05)},
    {"Threshold", "'threshold', threshold = 0.0078125",
     plain_threshold(0.0078125F)},
    {"Dgc", "'dgc', ratio = 0.01, momentum = 0.5",
     plain_dgc(0.01, 0.5F, true, 0), 0},
    {"DgcWarmingUpWithoutMasks",
     "'dgc', ratio = 0.01, momentum = 0.5, masking = false, warmup_epochs = 3",
     plain_dgc(0.01, 0.5F, false, 3), 0},
    {"OneBit", "'one_bit'", plain_one_bit()},
    {"Qsgd", "'qsgd', levels = 7, bucket = 100", plain_qsgd(7, 100)},
    {"FourBits", "'e3m0', bucket = 100, error_feedback = true",
     plain_e3m0(100)},
    {"MajorityOfSignum", "'sign', momentum = 0.5", plain_majority(0.5F), 0},
    {"ScaledSigns", "'sign', error_feedback = true", plain_scaled_signs()},
    {"PowerSgd", "'power_sgd', rank = 2", plain_power_sgd(2), 0.5, 2e-4}};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const auto& [replicas, blocks, method] = info.param;
  return fmt::format("{}_R{}K{}", method.name, replicas, blocks);
}

INSTANTIATE_TEST_SUITE_P(Gradients, CompressorOracle,
                         testing::Combine(testing::Values(2, 3),
                                          testing::Values(1, 2),
                                          testing::ValuesIn(kMethods)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Gradients, CompressedApart,
                         testing::Combine(testing::Values(2),
                                          testing::Values(2),
                                          testing::ValuesIn(kMethods)),
                         name_of);

}  // namespace sluice::compressor_oracle_test
