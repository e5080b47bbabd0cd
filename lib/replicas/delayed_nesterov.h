#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lib/base/config.h"
#include "lib/replicas/outer_step.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Outer optimizer of a server to which replicas push how far they have moved,
/// one after the other.
struct PushedStep {
  OuterStep outer = {};
  std::int64_t every = 1;  ///< pushes to a step of the momentum

  /// Whether the server adds each movement as it is.
  bool is_plain() const { return outer.is_plain() && every == 1; }
  void describe(Fields& fields);
};

/// Delayed Nesterov momentum (Liu et al. 2024, arXiv:2401.09135, with
/// c = 0): each push moves the server's weights by its part of a step, and
/// the momentum moves, and moves them, after so many pushes, by their mean: all
/// of these are a Nesterov step on it. Used by one thread at a time.
class DelayedNesterov {
 public:
  DelayedNesterov(const PushedStep& step, const NamedTensors& parameters);
  /// Forgets what was pushed.
  void begin() const;
  /// Moves the weights, in their order, by a push: how far the replica has
  /// moved.
  void push(const NamedTensors& weights, const Tensors& moved) const;
  /// Tensors that go on over a checkpoint, and are restored in place.
  NamedTensors state() const;

 private:
  const PushedStep step_;
  NamedTensors momentum_;
  NamedTensors pushed_;  // sums since the momentum moved last
  at::Tensor count_;     // [1]: of these
};

}  // namespace sluice
