#include "tests/oracles/delay_oracle.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "lib/base/by_block.h"

namespace sluice {
namespace {

std::vector<at::Tensor> leaves(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> fresh;
  for (const at::Tensor& tensor : tensors)
    fresh.push_back(tensor.detach().clone().requires_grad_());
  return fresh;
}

}  // namespace

DelayOracle::DelayOracle(const Training& of, Method method)
    : method_(method),
      blocks_(of.experiment.blocks()),
      turns_(of.experiment.length.turns) {
  const NamedTensors first = copies_of(of.weights());
  has_norm_ = false;
  for (int block = 1; block <= blocks_; ++block) {
    const LayerRange range = by_block(of.experiment.ranges, block);
    layers_.push_back(static_cast<int>(range.last - range.first + 1));
    for (std::int64_t layer = range.first; layer <= range.last; ++layer)
      for (const char* member :
           {"linear.weight", "linear.bias", "norm.weight", "norm.bias"})
        for (const auto& [name, tensor] : first) {
          if (name != "layers." + std::to_string(layer) + "." + member)
            continue;
          weights_[block].push_back(tensor);
          has_norm_ = has_norm_ || std::string(member).starts_with("norm");
        }
  }
  SampleSource source(
      of.experiment.data->train.samples(),
      {.batch_size = of.experiment.batch_size, .seed = of.experiment.seed});
  for (std::int64_t t = 0; t < turns_; ++t) batches_.push_back(source.batch(t));
}

std::int64_t DelayOracle::delay_of(int block) const {
  return method_.delay * (blocks_ - block);
}

at::Tensor DelayOracle::run(int block, const at::Tensor& input,
                            const Parameters& weights) const {
  at::Tensor x = input.flatten(1);
  std::size_t next = 0;
  const int layers = by_block(layers_, block);
  for (int layer = 0; layer < layers; ++layer) {
    x = at::linear(x, weights.at(next), weights.at(next + 1));
    next += 2;
    if (block == blocks_ && layer + 1 == layers) break;  // logits
    if (has_norm_) {
      x = at::batch_norm(x, weights.at(next), weights.at(next + 1), {}, {},
                         true, 0.1, 1e-5, false);
      next += 2;
    }
    x = at::relu(x);
  }
  return x;
}

at::Tensor DelayOracle::loss_at(const at::Tensor& logits,
                                std::int64_t batch) const {
  return at::cross_entropy_loss(
      logits, batches_.at(static_cast<std::size_t>(batch)).labels);
}

void DelayOracle::forward(int block, std::int64_t batch) {
  const at::Tensor input =
      block == 1 ? batches_.at(static_cast<std::size_t>(batch)).inputs
                 : run(block - 1, inputs_.at({block - 1, batch}),
                       weights_of_forward_.at({block - 1, batch}))
                       .detach();
  inputs_[{block, batch}] = input;
  weights_of_forward_[{block, batch}] =
      leaves(method_.predicts ? predicted(block, batch) : now(block));
  updates_at_forward_[{block, batch}] = updates_[block];
}

/// None before the first batch has come back.
std::int64_t DelayOracle::updates_until_backward(int block,
                                                 std::int64_t batch) const {
  const std::int64_t delay = delay_of(block);
  const bool is_first = method_.backward_first && delay > 0;
  return std::min(batch, is_first ? delay - 1 : delay);
}

DelayOracle::Parameters DelayOracle::predicted(int block,
                                               std::int64_t batch) const {
  Parameters weights = weights_.at(block);
  if (!velocities_.contains(block)) return weights;
  const auto steps = static_cast<double>(updates_until_backward(block, batch));
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = weights[i] - velocities_.at(block)[i] * method_.rate * steps;
  return weights;
}

DelayOracle::Parameters DelayOracle::extrapolated(int block,
                                                  std::int64_t batch) const {
  Parameters weights = weights_.at(block);
  if (!changes_.contains(block)) return weights;
  const at::NoGradGuard no_grad;
  const std::int64_t staleness =
      updates_.at(block) - updates_at_forward_.at({block, batch});
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] =
        weights[i] - changes_.at(block)[i] * static_cast<double>(staleness);
  return weights;
}

void DelayOracle::follow(int block, const Parameters& before,
                         std::int64_t staleness) {
  const double past = staleness == 0
                          ? 0
                          : std::pow(method_.velocity_decay,
                                     1 / static_cast<double>(staleness));
  Parameters& changes = changes_[block];
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor change = now(block)[i] - before[i];
    if (changes.size() <= i) changes.push_back(at::zeros_like(change));
    changes[i] = changes[i] * past + change * (1 - past);
  }
}

DelayOracle::Backward DelayOracle::of_forward(int block, std::int64_t batch) {
  at::Tensor x = inputs_.at({1, batch});
  for (int k = 1; k <= blocks_; ++k)
    x = run(k, x, weights_of_forward_.at({k, batch}));
  Backward backward;
  backward.gradients = torch::autograd::grad(
      {loss_at(x, batch)}, weights_of_forward_.at({block, batch}));
  const double scale = std::pow(method_.beta, blocks_ - block);
  if (scale != 1)
    for (at::Tensor& gradient : backward.gradients) gradient = gradient * scale;
  return backward;
}

DelayOracle::Backward DelayOracle::of_today(int block, std::int64_t batch) {
  const at::Tensor input =
      inputs_.at({block, batch}).detach().clone().requires_grad_();
  Parameters wanted = leaves(now(block));
  const at::Tensor output = run(block, input, wanted);
  wanted.push_back(input);
  Backward backward;
  backward.gradients =
      block == blocks_
          ? torch::autograd::grad({loss_at(output, batch)}, wanted)
          : torch::autograd::grad({output}, wanted,
                                  {signals_.at({block, batch}) * method_.beta});
  backward.below = backward.gradients.back();
  backward.gradients.pop_back();
  return backward;
}

DelayOracle::Backward DelayOracle::mixed(int block, std::int64_t batch) {
  // By hand: autograd would refuse this, or do it right.
  const Parameters& old = weights_of_forward_.at({block, batch});
  const Parameters later =
      method_.velocity_decay > 0 ? extrapolated(block, batch) : now(block);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> activations = {inputs_.at({block, batch}).flatten(1)};
  const int layers = by_block(layers_, block);
  for (int layer = 0; layer < layers; ++layer) {
    const auto at = static_cast<std::size_t>(2 * layer);
    const at::Tensor sum =
        at::linear(activations.back(), old.at(at), old.at(at + 1));
    const bool is_output = block == blocks_ && layer + 1 == layers;
    activations.push_back(is_output ? sum : at::relu(sum));
  }
  at::Tensor signal;
  if (block == blocks_) {
    const at::AutoGradMode with_grad(true);
    const at::Tensor logits = activations.back().detach().requires_grad_();
    signal = torch::autograd::grad({loss_at(logits, batch)}, {logits})[0];
  } else {
    signal = signals_.at({block, batch}) * method_.beta;
  }
  Backward backward;
  backward.gradients.resize(old.size());
  for (int layer = layers - 1; layer >= 0; --layer) {
    const auto at = static_cast<std::size_t>(2 * layer);
    const bool is_output = block == blocks_ && layer + 1 == layers;
    if (!is_output) signal = signal * (activations.back() > 0);
    activations.pop_back();
    backward.gradients[at] = signal.t().mm(activations.back());
    backward.gradients[at + 1] = signal.sum(0);
    signal = signal.mm(later.at(at));
  }
  backward.below = signal;
  return backward;
}

void DelayOracle::step(int block, const Parameters& by) {
  Parameters& weights = now(block);
  Parameters gradients;
  for (const at::Tensor& gradient : by)
    gradients.push_back(gradient.contiguous());
  if (method_.momentum > 0 && !velocities_.contains(block))
    for (const at::Tensor& weight : weights)
      velocities_[block].push_back(at::zeros_like(weight));
  at::_fused_sgd_(weights, gradients, velocities_[block], 0, method_.momentum,
                  method_.rate, 0, false, false, method_.momentum == 0);
}

void DelayOracle::apply(int block, std::int64_t turn, std::int64_t batch,
                        Applications& applied) {
  if (batch < 0 || batch >= turns_) return;
  Backward backward;
  if (method_.weights == Weights::of_forward)
    backward = of_forward(block, batch);
  else if (method_.weights == Weights::of_today)
    backward = of_today(block, batch);
  else
    backward = mixed(block, batch);
  signals_[{block - 1, batch}] = backward.below;
  applied[block].push_back({turn, batch, backward.gradients});
  const at::NoGradGuard no_grad;
  Parameters& weights = now(block);
  const std::int64_t staleness =
      updates_[block]++ - updates_at_forward_.at({block, batch});
  Parameters before;
  for (const at::Tensor& weight : weights) before.push_back(weight.clone());
  if (method_.update)
    method_.update({block, turn, staleness, weights, backward.gradients,
                    weights_of_forward_.at({block, batch})});
  else
    step(block, backward.gradients);
  if (method_.velocity_decay > 0) follow(block, before, staleness);
}

Applications DelayOracle::train() {
  Applications applied;
  const std::int64_t longest = delay_of(1);
  for (std::int64_t turn = 0; turn < turns_ + longest; ++turn) {
    for (int block = 1; block <= blocks_; ++block) {
      const std::int64_t delay = delay_of(block);
      const bool is_first = method_.backward_first && delay > 0;
      if (is_first) apply(block, turn, turn - delay, applied);
      if (turn < turns_) forward(block, turn);
    }
    for (int block = 1; block <= blocks_; ++block) {
      const std::int64_t delay = delay_of(block);
      const bool was_first = method_.backward_first && delay > 0;
      if (!was_first) apply(block, turn, turn - delay, applied);
    }
  }
  return applied;
}

}  // namespace sluice
