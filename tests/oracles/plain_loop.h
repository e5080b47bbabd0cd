#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <torch/nn/module.h>

#include "tests/experiments/helpers/training.h"

namespace sluice {

/// The oracle's loop, as LibTorch's users write it: forward, cross entropy,
/// loss.backward() of every batch of the run, then `update` with the weights'
/// gradients in place. `forward` gets inputs and turn.
void plain_loop(torch::nn::Module& net,
                const std::function<at::Tensor(const at::Tensor& inputs,
                                               std::int64_t turn)>& forward,
                const Experiment& experiment, std::int64_t turns,
                const std::function<void()>& update);

/// What FusedSgd does, as a config says it.
inline constexpr const char* kSgd =
    "optimizer = {name = 'sgd', lr = 0.05, momentum = 0.9, nesterov = true, "
    "weight_decay = 5e-4}\n";

/// ATen's fused SGD over the weights of a net.
class FusedSgd {
 public:
  explicit FusedSgd(torch::nn::Module& net);
  void operator()();

 private:
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> velocities_;
};

/// Starts the plain net, whose tensors are `named`, from the workers' first
/// weights and memory layout.
void take_weights(torch::nn::Module& net, const NamedTensors& named,
                  const Training& from);

}  // namespace sluice
