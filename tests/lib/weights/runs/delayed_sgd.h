#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/training.h"

namespace sluice {

/// Config of an MLP of kLayers layers, cut into those ranges, for 30 turns.
inline constexpr int kLayers = 5;
inline std::string delayed_net(const char* ranges, double lr,
                               const std::string& of_optimizer = "") {
  return std::string("blocks = ") + ranges +
         "\nmodel = {hidden = [24, 20, 24, 16]}\nturns = 30\n" +
         "optimizer = {lr = " + std::to_string(lr) + of_optimizer + "}\n";
}
inline constexpr const char* kBackprop = "boundary = {policy = 'backprop'}\n";

inline NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

/// w_{t+1} = w_t - rate gradient(w_{t-age}) of the whole net in plain autograd,
/// of which Sluice gives the data and the first weights. All weights of the
/// past are at hand; earlier than the first there are none.
class DelayedSgd {
 public:
  explicit DelayedSgd(const std::string& lines)
      : of_(small_experiment(lines)), named_(copies_of(of_.weights())) {}

  NamedTensors train(std::size_t age) {
    SampleSource source(
        of_.experiment.data->train.samples(),
        {.batch_size = of_.experiment.batch_size, .seed = of_.experiment.seed});
    std::vector<Tensors> past = {values_of(named_)};
    const auto turns = static_cast<std::size_t>(of_.experiment.length.turns);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      const Batch batch = source.batch(static_cast<std::int64_t>(turn));
      Tensors gradients = gradients_at(past[turn - std::min(turn, age)], batch);
      for (at::Tensor& gradient : gradients) gradient = gradient.contiguous();
      Tensors next;
      for (const at::Tensor& weight : past.back())
        next.push_back(weight.clone());
      at::_fused_sgd_(next, gradients, {}, 0, 0, 0.05, 0, false, false, true);
      past.push_back(next);
    }
    for (std::size_t i = 0; i < named_.size(); ++i)
      named_[i].second = past.back()[i];
    return named_;
  }

 private:
  Tensors gradients_at(const Tensors& weights, const Batch& batch) const {
    Tensors leaves;
    for (const at::Tensor& weight : weights)
      leaves.push_back(weight.detach().clone().requires_grad_());
    at::Tensor x = batch.inputs.flatten(1);
    for (int layer = 0; layer < kLayers; ++layer) {
      x = at::linear(x, leaves[find(layer, "weight")],
                     leaves[find(layer, "bias")]);
      if (layer + 1 < kLayers) x = at::relu(x);
    }
    return torch::autograd::grad({at::cross_entropy_loss(x, batch.labels)},
                                 leaves);
  }

  std::size_t find(int layer, const char* member) const {
    const std::string name =
        "layers." + std::to_string(layer) + ".linear." + member;
    const auto found =
        std::find_if(named_.begin(), named_.end(),
                     [&](const auto& each) { return each.first == name; });
    if (found == named_.end()) throw InternalError("no {}", name);
    return static_cast<std::size_t>(found - named_.begin());
  }

  Training of_;
  NamedTensors named_;
};

}  // namespace sluice
