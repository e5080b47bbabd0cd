#include "lib/workers/trained/moving_average.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/checkpoints/checkpoint.h"

namespace sluice {

MovingAverage::MovingAverage(double decay, const NamedTensors& weights)
    : decay_(decay) {
  for (const auto& [name, tensor] : weights) {
    names_.push_back(name + ".average");
    values_.push_back(tensor.detach().clone());
  }
}

void MovingAverage::begin(const NamedTensors& weights) {
  if (std::exchange(has_begun_, true)) return;
  for (std::size_t i = 0; i < values_.size(); ++i)
    values_[i] = weights.at(i).second.detach().clone();
}

void MovingAverage::follow(const NamedTensors& weights) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values_.size(); ++i)
    values_[i].lerp_(weights.at(i).second, 1 - decay_);
}

NamedTensors MovingAverage::state() const {
  NamedTensors all;
  for (std::size_t i = 0; i < values_.size(); ++i)
    all.emplace_back(names_[i], values_[i]);
  return all;
}

void MovingAverage::restore(const NamedTensors& state,
                            std::string_view source) {
  has_begun_ = std::any_of(state.begin(), state.end(), [&](const auto& named) {
    return !names_.empty() && named.first == names_.front();
  });
  if (has_begun_) copy_by_name(state, this->state(), source);
}

}  // namespace sluice
