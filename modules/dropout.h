#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "lib/blocks/layer.h"

namespace sluice {

/// Unit that a dropout drops as one: an element, or a channel, which is dim 1
/// of [N, C, ...], with all its pixels.
enum class DropoutUnit : std::uint8_t { element, channel };

/// Sets each unit to 0 with probability p and scales the others by
/// 1 / (1 - p); the identity in evaluation. The mask depends on (seed, layer,
/// batch, name in the chain), on Pass::masks and on the shape alone: on neither
/// strides nor device of the input, like which it is laid out.
class Dropout final : public Layer {
 public:
  /// Throws UserError unless 0 <= p < 1.
  explicit Dropout(double p, DropoutUnit unit = DropoutUnit::element);
  Tensors forward(const Tensors& inputs, const Pass& pass) override;
  /// Lets `watcher` see, from now on, each mask that is drawn: 0 or 1 / (1 - p)
  /// for each unit, float32, [N, ...] or [N, C, 1, 1].
  void watch(std::function<void(const at::Tensor&)> watcher) {
    watcher_ = std::move(watcher);
  }

 private:
  at::Tensor draw(const at::Tensor& input, const Pass& pass) const;

  double p_;
  DropoutUnit unit_;
  std::function<void(const at::Tensor&)> watcher_;
};

}  // namespace sluice
