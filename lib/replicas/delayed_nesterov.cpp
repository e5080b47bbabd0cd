#include "lib/replicas/delayed_nesterov.h"

#include <cstddef>

#include <ATen/ATen.h>

#include "lib/replicas/taken_weights.h"

namespace sluice {

void PushedStep::describe(Fields& fields) {
  outer.describe(fields);
  fields.key("outer_every", every,
             {.text = "pushes after which its momentum moves, by their mean: 1 "
                      "is Nesterov's momentum in each push, replicas.count "
                      "the delayed one; a push moves the server's weights by "
                      "1 / outer_every of outer_lr",
              .unit = "pushes",
              .min = 1,
              .max = 1e6});
}

DelayedNesterov::DelayedNesterov(const PushedStep& step,
                                 const NamedTensors& parameters)
    : step_(step),
      momentum_(named_copies(parameters, "outer.momentum.")),
      pushed_(named_copies(parameters, "outer.pushed.")),
      count_(at::zeros({1}, at::kLong)) {
  begin();
}

void DelayedNesterov::begin() const {
  for (const NamedTensors* each : {&momentum_, &pushed_})
    for (const auto& [name, tensor] : *each) tensor.zero_();
  count_.zero_();
}

void DelayedNesterov::push(const NamedTensors& weights,
                           const Tensors& moved) const {
  const auto pushes = static_cast<double>(step_.every);
  const double momentum = step_.outer.momentum;
  count_.add_(1);
  const bool is_step = count_.item<std::int64_t>() == step_.every;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    at::Tensor along = moved.at(i) / pushes;
    const at::Tensor& sum = pushed_[i].second;
    sum.add_(moved[i]);
    if (is_step) {
      const at::Tensor& buffer = momentum_[i].second;
      buffer.mul_(momentum).add_(sum / pushes);
      along = along + momentum * buffer;
      sum.zero_();
    }
    weights[i].second.add_(along * step_.outer.learning_rate);
  }
  if (is_step) count_.zero_();
}

/// The count by the names of what it is of, so that another cut finds it too.
NamedTensors DelayedNesterov::state() const {
  NamedTensors all = momentum_;
  all.insert(all.end(), pushed_.begin(), pushed_.end());
  for (const auto& [name, tensor] : momentum_)
    all.emplace_back("count_of." + name, count_);
  return all;
}

}  // namespace sluice
