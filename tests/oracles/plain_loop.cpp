#include "tests/oracles/plain_loop.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include "experiments/data/order/sample_source.h"
#include "lib/checkpoints/checkpoint.h"

namespace sluice {
namespace {

/// Autocast around forward and loss, and its cache cleared before the weights
/// change.
at::Tensor autocast_loss(bool bf16, const std::function<at::Tensor()>& loss) {
  if (!bf16) return loss();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::Tensor result = loss();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  return result;
}

}  // namespace

void plain_loop(torch::nn::Module& net,
                const std::function<at::Tensor(const at::Tensor& inputs,
                                               std::int64_t turn)>& forward,
                const Experiment& experiment, std::int64_t turns,
                const std::function<void()>& update) {
  SampleSource source(
      experiment.data->train.samples(),
      {.batch_size = experiment.batch_size, .seed = experiment.seed});
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    const Batch batch = source.batch(turn);
    net.zero_grad();
    autocast_loss(experiment.precision == Precision::bf16, [&] {
      const at::Tensor outputs =
          forward(laid_out(batch.inputs, experiment.memory_format), turn);
      return at::cross_entropy_loss(outputs.reshape({-1, outputs.size(-1)}),
                                    batch.labels.reshape(-1));
    }).backward();
    update();
  }
}

FusedSgd::FusedSgd(torch::nn::Module& net) : weights_(net.parameters()) {
  for (const at::Tensor& weight : weights_)
    velocities_.push_back(at::zeros_like(weight.detach()));
}

void FusedSgd::operator()() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& weight : weights_) gradients.push_back(weight.grad());
  at::_fused_sgd_(weights_, gradients, velocities_, 5e-4, 0.9, 0.05, 0, true,
                  false, false);
}

void take_weights(torch::nn::Module& net, const NamedTensors& named,
                  const Training& from) {
  for (auto& parameter : net.parameters())
    parameter.set_data(
        laid_out(parameter.detach(), from.experiment.memory_format));
  copy_by_name(from.weights(), named, "the workers");
}

}  // namespace sluice
