// Blocks with heads that are solved (deep stacking), in whole runs, against
// plain autograd through the inverse.
#include <cstdint>
#include <map>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::ridge_test {

std::string net(const std::string& head) {
  return "blocks = ['0', '1', '2']\nmodel = {hidden = [12, 10]}\n"
         "optimizer = {lr = 0.05}\nturns = 30\n"
         "boundary = {policy = 'local_loss', head = {name = 'ridge', " +
         head + "}}\n";
}

using Weights = std::map<std::string, at::Tensor>;

/// A hidden layer learns by the gradient of the least ridge regression of the
/// labels on its batch, through the inverse; all in float64.
NamedTensors plain_stacking(const std::string& lines, double lambda) {
  const Training start(small_experiment(lines));
  Weights w;
  for (const auto& [name, tensor] : start.weights())
    if (name.starts_with("layers."))
      w[name] = tensor.detach().to(at::kDouble).clone();
  SampleSource source(start.experiment.data->train.samples(),
                      {.batch_size = start.experiment.batch_size,
                       .seed = start.experiment.seed});
  for (std::int64_t turn = 0; turn < 30; ++turn) {
    const Batch batch = source.batch(turn);
    at::Tensor x = batch.inputs.flatten(1).to(at::kDouble);
    const at::Tensor t = at::one_hot(batch.labels, 10).to(at::kDouble);
    const auto n = static_cast<double>(x.size(0));
    for (int layer = 0; layer < 3; ++layer) {
      const std::string name = "layers." + std::to_string(layer) + ".linear.";
      at::Tensor& weight = w[name + "weight"];
      at::Tensor& bias = w[name + "bias"];
      weight.requires_grad_();
      bias.requires_grad_();
      at::Tensor y = at::linear(x, weight, bias);
      at::Tensor loss;
      if (layer < 2) {
        y = at::relu(y);
        const at::Tensor h =
            at::cat({y, at::ones({y.size(0), 1}, y.options())}, 1);
        const at::Tensor gram =
            at::mm(h.t(), h) / n + lambda * at::eye(h.size(1), h.options());
        const at::Tensor u = at::mm(at::inverse(gram), at::mm(h.t(), t) / n);
        loss =
            (at::mm(h, u) - t).square().mean() + lambda * u.square().sum() / 10;
      } else {
        loss = at::cross_entropy_loss(y, batch.labels);
      }
      const auto slopes = torch::autograd::grad({loss}, {weight, bias});
      weight = weight.detach() - 0.05 * slopes[0];
      bias = bias.detach() - 0.05 * slopes[1];
      x = y.detach();
    }
  }
  NamedTensors all;
  for (const auto& [name, tensor] : w)
    all.emplace_back(name, tensor.detach().to(at::kFloat));
  return all;
}

TEST(RidgeRun, HasTheWeightsOfPlainAutogradThroughTheInverseOver30Turns) {
  const std::string lines = net("lambda = 0.1, decay = 0");
  Training training(small_experiment(lines));
  training.train();
  EXPECT_LT(distance(plain_stacking(lines, 0.1), training.weights()), 1e-4);
  EXPECT_GT(distance(plain_stacking(lines, 0.2), training.weights()), 1e-3);
}

}  // namespace sluice::ridge_test
