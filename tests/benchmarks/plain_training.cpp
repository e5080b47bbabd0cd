#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "lib/base/error.h"
#include "lib/memory/allocator.h"
#include "tests/benchmarks/speed_training.h"
#include "tests/oracles/plain_models.h"

namespace sluice {
namespace {

namespace nn = torch::nn;
using at::Tensor;

constexpr std::int64_t kMatrixSize = 2048;

struct Net {
  std::shared_ptr<nn::Module> module;
  std::function<Tensor(const Tensor&)> forward;
};

struct Data {
  Tensor inputs;
  Tensor labels;
};

Net conv_net() {
  nn::Sequential net;
  for (int i = 0; i < 3; ++i) {
    net->push_back(
        nn::Conv2d(nn::Conv2dOptions(i == 0 ? 3 : 128, 128, 5).padding(2)));
    net->push_back(nn::BatchNorm2d(128));
    net->push_back(nn::ReLU());
    if (i == 0)
      net->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(3)));
    else
      net->push_back(nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(3)));
  }
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(128, 10));
  return {net.ptr(),
          [net](const Tensor& x) mutable { return net->forward(x); }};
}

Net mlp() {
  nn::Sequential net;
  net->push_back(nn::Flatten());
  for (int i = 0; i < 3; ++i) {
    net->push_back(nn::Linear(i == 0 ? 784 : 1024, 1024));
    net->push_back(nn::ReLU());
  }
  net->push_back(nn::Linear(1024, 10));
  return {net.ptr(),
          [net](const Tensor& x) mutable { return net->forward(x); }};
}

Net gpt() {
  const auto net = std::make_shared<PlainGpt>(PlainGpt::Sizes{.layers = 4,
                                                              .width = 128,
                                                              .heads = 4,
                                                              .context = 128,
                                                              .vocabulary = 65,
                                                              .tied = false});
  return {net, [net](const Tensor& x) { return net->forward(x); }};
}

Net net_of(std::string_view name) {
  if (name == "conv") return conv_net();
  return name == "mlp" ? mlp() : gpt();
}

Data data_of(std::string_view name) {
  if (name == "gpt")
    return {at::randint(65, {512, 128}, at::kLong),
            at::randint(65, {512, 128}, at::kLong)};
  return {name == "conv" ? at::randn({2048, 3, 32, 32})
                         : at::randn({2048, 1, 28, 28}),
          at::randint(10, {2048}, at::kLong)};
}

/// LibTorch's optimizers, as they come.
std::function<void()> torch_optimizer(std::string_view name,
                                      const std::vector<Tensor>& weights) {
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  if (name == "conv")
    optimizer = std::make_shared<torch::optim::SGD>(
        weights, torch::optim::SGDOptions(0.01).momentum(0.9));
  else if (name == "mlp")
    optimizer = std::make_shared<torch::optim::Adam>(weights, 1e-4);
  else
    optimizer = std::make_shared<torch::optim::AdamW>(weights, 1e-4);
  return [optimizer] { optimizer->step(); };
}

/// Optimizer by ATen's fused operations.
std::function<void()> fused_optimizer(std::string_view name,
                                      std::vector<Tensor> weights) {
  std::vector<Tensor> means, variances, steps;
  for (const Tensor& weight : weights) {
    means.push_back(at::zeros_like(weight.detach()));
    variances.push_back(at::zeros_like(weight.detach()));
    steps.push_back(at::zeros({}, at::kFloat));
  }
  return [=]() mutable {
    const at::NoGradGuard no_grad;
    std::vector<Tensor> gradients;
    for (const Tensor& weight : weights) gradients.push_back(weight.grad());
    for (Tensor& step : steps) step.add_(1);
    if (name == "conv")
      at::_fused_sgd_(weights, gradients, means, 0, 0.9, 0.01, 0, false, false,
                      false);
    else if (name == "mlp")
      at::_fused_adam_(weights, gradients, means, variances, {}, steps, 1e-4,
                       0.9, 0.999, 0, 1e-8, false, false);
    else
      at::_fused_adamw_(weights, gradients, means, variances, {}, steps, 1e-4,
                        0.9, 0.999, 0.01, 1e-8, false, false);
  };
}

void lay_out_for_speed(nn::Module& module) {
  for (Tensor& weight : module.parameters())
    if (weight.dim() == 4)
      weight.set_data(
          weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace

void train_plainly(const SpeedCase& of, std::int64_t threads, bool tuned,
                   Turns& turns) {
  at::set_num_threads(static_cast<int>(threads));
  if (tuned && !install_allocator())
    throw UserError("the allocator can't be installed");
  Net net = net_of(of.name);
  if (tuned) lay_out_for_speed(*net.module);
  const Data data = data_of(of.name);
  const auto update = tuned
                          ? fused_optimizer(of.name, net.module->parameters())
                          : torch_optimizer(of.name, net.module->parameters());
  const Tensor order = at::randperm(data.inputs.size(0), at::kLong);
  for (std::int64_t at = 0;; at += of.batch_size) {
    if (at + of.batch_size > order.numel()) at = 0;
    const Tensor chosen = order.narrow(0, at, of.batch_size);
    Tensor inputs = data.inputs.index_select(0, chosen);
    if (tuned && inputs.dim() == 4)
      inputs = inputs.contiguous(at::MemoryFormat::ChannelsLast);
    const Tensor labels = data.labels.index_select(0, chosen);
    net.module->zero_grad();
    const Tensor outputs = net.forward(inputs);
    const Tensor loss = at::cross_entropy_loss(
        outputs.reshape({-1, outputs.size(-1)}), labels.reshape(-1));
    loss.backward();
    update();
    if (loss.item<float>() < 0) throw InternalError("a negative loss");
    turns.stepped();
  }
}

void multiply_matrices(std::int64_t threads, Turns& turns) {
  at::set_num_threads(static_cast<int>(threads));
  const Tensor a = at::randn({kMatrixSize, kMatrixSize});
  const Tensor b = at::randn({kMatrixSize, kMatrixSize});
  Tensor product = at::mm(a, b);
  for (;;) {
    at::mm_out(product, a, b);
    turns.stepped();
  }
}

double matrix_flops() {
  return 2.0 * kMatrixSize * kMatrixSize * kMatrixSize;
}

}  // namespace sluice
