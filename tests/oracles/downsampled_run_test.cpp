// Runs whose messages are downsampled, against autograd through the averages.
#include <cstddef>
#include <cstdint>
#include <string>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::downsampled_run_test {

std::string net(const std::string& boundary) {
  return "blocks = ['0-1', '2-']\nmodel = {name = 'conv3', channels = 8}\n"
         "optimizer = {lr = 0.05}\nboundary = {" +
         boundary + "}\n";
}

NamedTensors trained(const std::string& boundary) {
  Training training(small_experiment(net(boundary) + "turns = 6\n"));
  training.train();
  return training.weights();
}

/// With one step from the top that of back-propagation over the same messages,
/// with auxiliary variables as without.
TEST(DownsampledRun,
     DownsampledRunOfVariablesIsBackPropagationOverSmallMessages) {
  const NamedTensors small =
      trained("policy = 'backprop', codec = 'downsample'");
  for (const char* policy : {"penalty", "augmented_lagrangian"})
    EXPECT_EQ(difference(trained("policy = '" + std::string(policy) +
                                 "', codec = 'downsample'"),
                         small),
              "")
        << policy;
  EXPECT_GT(distance(trained("policy = 'backprop'"), small), 1e-5);
  const NamedTensors kept = trained(
      "policy = 'penalty', codec = 'downsample', memory = 'sample', step_size "
      "= 0.5");
  EXPECT_GT(distance(small, kept), 1e-5);
}

/// [n, n]: the means of pairs, at both places of the pair.
at::Tensor averaging(std::int64_t n) {
  const at::Tensor matrix = at::zeros({n, n});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      if (i / 2 == j / 2) matrix[i][j] = i / 2 * 2 + 1 < n ? 0.5 : 1.0;
  return matrix;
}

at::Tensor averaged(const at::Tensor& maps) {
  return at::matmul(at::matmul(averaging(maps.size(2)), maps),
                    averaging(maps.size(3)).t());
}

/// Three convolutions and a linear layer by autograd and SGD, uncut; with
/// averages where the messages of `lines` are downsampled, or without.
NamedTensors plainly_trained(const std::string& lines, bool with_averages) {
  const Training start(small_experiment(lines));
  NamedTensors named;
  for (const auto& [name, tensor] : start.weights())
    named.emplace_back(name, tensor.detach().clone().requires_grad_());
  const auto crossing = [&](const at::Tensor& maps) {
    return with_averages ? averaged(maps) : maps;
  };
  const auto convolved = [&](std::size_t layer, const at::Tensor& maps) {
    return at::relu(at::conv2d(maps, named[2 * layer].second,
                               named[2 * layer + 1].second, 1, 2));
  };
  SampleSource source(start.experiment.data->train.samples(),
                      {.batch_size = start.experiment.batch_size,
                       .seed = start.experiment.seed});
  for (std::int64_t turn = 0; turn < 30; ++turn) {
    const Batch batch = source.batch(turn);
    at::Tensor h = crossing(at::max_pool2d(convolved(0, batch.inputs), 3));
    h = crossing(at::avg_pool2d(convolved(1, h), 3));
    h = at::avg_pool2d(convolved(2, h), 3).flatten(1);
    const at::Tensor loss = at::cross_entropy_loss(
        at::linear(h, named[6].second, named[7].second), batch.labels);
    const auto gradients = torch::autograd::grad({loss}, values_of(named));
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < named.size(); ++i)
      named[i].second.sub_(gradients[i], 0.05);
  }
  for (auto& [name, tensor] : named) tensor = tensor.detach();
  return named;
}

TEST(DownsampledRun, HasTheWeightsOfAveragesInPlainAutogradOver30Turns) {
  const auto lines = [](const std::string& codec) {
    return "turns = 30\nblocks = ['0', '1', '2-']\noptimizer = {lr = 0.05}\n"
           "model = {name = 'conv3', channels = 6, batch_norm = false}\n"
           "boundary = {policy = 'penalty', codec = '" +
           codec + "'}\n";
  };
  const std::string small = lines("downsample");
  Training training(small_experiment(small));
  training.train();
  const NamedTensors found = training.weights();
  ASSERT_EQ(found.size(), 8U);
  EXPECT_EQ(found[0].first, "layers.0.conv.weight");
  EXPECT_EQ(found[7].first, "layers.3.linear.bias");
  EXPECT_LT(distance(plainly_trained(small, true), found), 1e-5);
  EXPECT_GT(distance(plainly_trained(small, false), found), 1e-4);
}

}  // namespace sluice::downsampled_run_test
