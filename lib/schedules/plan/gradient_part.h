#pragma once

namespace sluice {

/// A part of the gradient at h_k: the sum over the losses whose gradients take
/// the same way down.
struct GradientPart {
  bool own = false;      ///< the policy's own signal; else from above
  bool applied = true;   ///< whether it moves the block's weights
  int leaving = kStays;  ///< index of the gradient sent down that it adds to
  /// Whether it is a separate target, from which the synthesizers below learn.
  bool target = false;

  static constexpr int kStays = -1;
  bool operator==(const GradientPart&) const = default;
};

}  // namespace sluice
