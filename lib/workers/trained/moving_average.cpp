#include "lib/workers/trained/moving_average.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/checkpoints/checkpoint.h"

namespace sluice {

AverageRule tail_of(double share, std::int64_t turns) {
  constexpr double kRounding = 1e-9;
  const auto length = static_cast<std::int64_t>(
      std::ceil(share * static_cast<double>(turns) - kRounding));
  return {.decay = 0, .first_turn = turns - length};
}

MovingAverage::MovingAverage(const AverageRule& rule,
                             const NamedTensors& weights)
    : rule_(rule) {
  for (const auto& [name, tensor] : weights) {
    names_.push_back(name);
    values_.push_back(tensor.detach().clone());
  }
  if (rule_.decay == 0) averaged_ = at::zeros({2}, at::kLong);
}

void MovingAverage::begin(const NamedTensors& weights) {
  if (std::exchange(has_begun_, true)) return;
  for (std::size_t i = 0; i < values_.size(); ++i)
    values_[i] = weights.at(i).second.detach().clone();
}

/// The part that the weights after an update in this turn have in the average.
double MovingAverage::weight_of_next(std::int64_t turn) {
  if (rule_.decay > 0) return 1 - rule_.decay;
  if (turn < rule_.first_turn) return 1;
  auto* averaged = averaged_.mutable_data_ptr<std::int64_t>();
  std::int64_t& first = averaged[0];
  std::int64_t& count = averaged[1];
  if (std::exchange(first, rule_.first_turn) != rule_.first_turn) count = 0;
  return 1 / static_cast<double>(++count);
}

void MovingAverage::follow(const NamedTensors& weights, std::int64_t turn) {
  const at::NoGradGuard no_grad;
  const double part = weight_of_next(turn);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const at::Tensor& weight = weights.at(i).second;
    if (part == 1)
      values_[i].copy_(weight);
    else
      values_[i].lerp_(weight, part);
  }
}

NamedTensors MovingAverage::state() const {
  NamedTensors all;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    all.emplace_back(names_[i] + ".average", values_[i]);
    if (averaged_.defined())
      all.emplace_back(names_[i] + ".averaged", averaged_);
  }
  return all;
}

void MovingAverage::restore(const NamedTensors& state,
                            std::string_view source) {
  // A run may go on with an average of another kind, which begins anew.
  const std::string last = averaged_.defined() ? ".averaged" : ".average";
  has_begun_ = std::any_of(state.begin(), state.end(), [&](const auto& named) {
    return !names_.empty() && named.first == names_.front() + last;
  });
  if (has_begun_) copy_by_name(state, this->state(), source);
}

}  // namespace sluice
