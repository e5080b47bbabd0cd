#include "tests/experiments/api/small_network.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

namespace sluice {

NetworkOptions small_network(std::vector<Choice> boundaries,
                             std::string settings) {
  at::manual_seed(7);
  return {.layers = {[] { return torch::nn::Linear(6, 16); }, at::relu,
                     [] { return torch::nn::Linear(16, 16); },
                     [] { return torch::nn::BatchNorm1d(16); },
                     [] { return std::make_shared<Dropout>(0.2); },
                     [] { return torch::nn::Linear(16, 4); }},
          .example = at::zeros({1, 6}),
          .cuts = {2, 4},
          .boundaries = std::move(boundaries),
          .optimizer = "sgd, lr = 0.1, momentum = 0.9",
          .settings = "threads = 1\n" + settings};
}

Batch small_batch(std::int64_t t) {
  const auto seed = static_cast<std::uint64_t>(t) + 100;
  const at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>(seed);
  return {t, at::randn({8, 6}, generator, at::TensorOptions()),
          at::randint(4, {8}, generator, at::TensorOptions().dtype(at::kLong))};
}

void train(Network& net, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    const Batch batch = small_batch(net.turns());
    net.step(batch.inputs, batch.labels);
  }
}

}  // namespace sluice
