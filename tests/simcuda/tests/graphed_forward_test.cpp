// A block whose forwards and backwards are replays of graphs, beside one whose
// aren't.
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "lib/base/error.h"
#include "lib/blocks/block.h"
#include "lib/tensors/gradients.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/philox_mask.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::graphed_forward_test {

constexpr std::int64_t kWidth = 8;

class TestLayer final : public Layer {
 public:
  TestLayer()
      : linear_(register_module("linear", torch::nn::Linear(kWidth, kWidth))),
        norm_(register_module("norm", torch::nn::BatchNorm1d(kWidth))) {}

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    if (draws_) pass.key("test");
    return {at::relu(norm_->forward(linear_->forward(inputs.at(0)))) +
            inputs.at(0)};
  }
  void draw() { draws_ = true; }

 private:
  torch::nn::Linear linear_;
  torch::nn::BatchNorm1d norm_;
  bool draws_ = false;
};

Block block_on_gpu(bool graphs, bool draws = false) {
  const auto make = [draws] {
    auto layer = std::make_shared<TestLayer>();
    layer->initialise(7);
    if (draws) layer->draw();
    return Layers{layer};
  };
  Block block(1, 0, make, MemoryFormat::contiguous, kGpu);
  if (graphs) block.use_graphs();
  return block;
}

at::Tensor input_of(std::int64_t batch, std::int64_t size = 4) {
  return (at::arange(size * kWidth, at::kFloat) * 0.37 + batch)
      .sin()
      .reshape({size, kWidth})
      .to(kGpu);
}

/// One batch between its forward and its backward.
struct ForwardedBatch {
  at::Tensor input;
  Tensors outputs;
};

/// Outputs, gradients and statistics, in order, of batches whose backwards come
/// `delay` batches late; weights are stepped in between, in place.
std::vector<at::Tensor> trained(Block block, std::int64_t batches,
                                std::size_t delay) {
  std::vector<at::Tensor> seen;
  std::deque<ForwardedBatch> flights;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    at::Tensor input = input_of(batch, batch == 4 ? 3 : 4).requires_grad_();
    const Tensors outputs = block.forward({input}, {.batch = batch});
    seen.push_back(outputs.at(0).detach().cpu());
    flights.push_back({input, outputs});
    if (flights.size() <= delay) continue;
    const ForwardedBatch flight = std::move(flights.front());
    flights.pop_front();
    Tensors targets = values_of(block.parameters());
    targets.push_back(flight.input);
    const Tensors gradients = gradients_at(
        targets, flight.outputs, {flight.outputs.at(0).detach() * 0.5});
    for (const at::Tensor& gradient : gradients) seen.push_back(gradient.cpu());
    for (std::size_t i = 0; i + 1 < targets.size(); ++i)
      targets[i].variable_data().sub_(gradients[i], 0.1);
  }
  for (const auto& [name, buffer] : block.buffers())
    seen.push_back(buffer.cpu());
  return seen;
}

class GraphedForwards : public SimulatedGpu,
                        public testing::WithParamInterface<std::size_t> {};

TEST_P(GraphedForwards, HaveTheBitsOfOthersWithFewerLaunches) {
  constexpr std::int64_t kBatches = 12;
  const std::int64_t start = counts().launches;
  const auto plain = trained(block_on_gpu(false), kBatches, GetParam());
  const std::int64_t between = counts().launches;
  const auto graphed = trained(block_on_gpu(true), kBatches, GetParam());
  const std::int64_t end = counts().launches;
  ASSERT_EQ(plain.size(), graphed.size());
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(plain[i].equal(graphed[i])) << i;
  EXPECT_LT(end - between, between - start);
}

INSTANTIATE_TEST_SUITE_P(BatchesLate, GraphedForwards,
                         testing::Values(0, 1, 2));

class GraphedForward : public SimulatedGpu {};

TEST_F(GraphedForward, GraphOfALayerThatDrawsIsRefused) {
  EXPECT_THROW(trained(block_on_gpu(true, true), 6, 0), UserError);
}

}  // namespace sluice::simcuda::graphed_forward_test
