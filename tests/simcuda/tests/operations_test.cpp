// Operations on the simulated GPU give the numbers of the CPU, and throw where
// CUDA's do.
#include <memory>
#include <tuple>
#include <vector>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::operations_test {

class Operations : public SimulatedGpu {};

namespace nn = torch::nn;

nn::Sequential conv_net() {
  return nn::Sequential(
      nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)),
      nn::BatchNorm2d(8), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
      nn::Linear(8 * 16, 10));
}

std::unique_ptr<torch::optim::Optimizer> optimizer_for(
    const nn::Sequential& net, bool is_adam) {
  if (is_adam)
    return std::make_unique<torch::optim::Adam>(net->parameters(), 1e-3);
  return std::make_unique<torch::optim::SGD>(
      net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

std::vector<at::Tensor> trained_on(const c10::Device& device, bool is_adam) {
  torch::manual_seed(1);
  nn::Sequential net = conv_net();
  net->to(device);
  const at::Tensor x = at::randn({16, 3, 8, 8}).to(device);
  const at::Tensor y = at::randint(10, {16}).to(device);
  const auto optimizer = optimizer_for(net, is_adam);
  for (int i = 0; i < 5; ++i) {
    optimizer->zero_grad();
    nn::functional::cross_entropy(net->forward(x), y).backward();
    optimizer->step();
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& each : net->parameters())
    weights.push_back(each.detach().cpu());
  return weights;
}

TEST_F(Operations, ANetTrainsToTheWeightsOfTheCpu) {
  for (const bool is_adam : {false, true}) {
    const auto cpu = trained_on(at::kCPU, is_adam);
    const auto gpu = trained_on(kGpu, is_adam);
    for (std::size_t i = 0; i < cpu.size(); ++i)
      EXPECT_TRUE(at::allclose(gpu[i], cpu[i], 1e-5, 1e-6)) << i;
  }
}

/// Gradients of the weights, and last of the inputs.
std::vector<at::Tensor> lstm_gradients_on(const c10::Device& device) {
  torch::manual_seed(1);
  nn::LSTM lstm(nn::LSTMOptions(5, 7).num_layers(2).batch_first(true));
  lstm->to(device);
  const at::Tensor x = at::randn({3, 4, 5}).to(device).requires_grad_();
  const auto [outputs, states] = lstm->forward(x);
  (outputs.square().sum() + std::get<1>(states).sum()).backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& each : lstm->parameters())
    gradients.push_back(each.grad().cpu());
  gradients.push_back(x.grad().cpu());
  return gradients;
}

TEST_F(Operations, AnLstmHasTheGradientsOfTheCpu) {
  const auto cpu = lstm_gradients_on(at::kCPU);
  const auto gpu = lstm_gradients_on(kGpu);
  for (std::size_t i = 0; i < cpu.size(); ++i)
    EXPECT_TRUE(at::allclose(gpu[i], cpu[i], 1e-5, 1e-6)) << i;
}

/// Deterministic algorithms for the life of this object.
struct Deterministic {
  Deterministic() { set(true); }
  ~Deterministic() { set(false); }
  static void set(bool on) {
    at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
  }
};

void pool_backward(const c10::Device& device) {
  const at::Tensor x = at::ones({1, 1, 8, 8}, device).requires_grad_();
  at::adaptive_avg_pool2d(x, {2, 2}).sum().backward();
}

TEST_F(Operations, WhatHasNoDeterministicAlgorithmThrowsWhereOneIsAsked) {
  EXPECT_NO_THROW(pool_backward(kGpu));
  const Deterministic scope;
  EXPECT_NO_THROW(pool_backward(at::kCPU));
  EXPECT_THROW(pool_backward(kGpu), c10::Error);
}

}  // namespace sluice::simcuda::operations_test
