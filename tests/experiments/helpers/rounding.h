#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "lib/tensors/tensors.h"
#include "tests/experiments/helpers/training.h"

namespace sluice {

// Limits for two computations of the same numbers in float32 that add in other
// orders: on other processors, with other libraries, in another cut. They
// follow from the arithmetic, so that an untried processor meets
// them too.

/// Unit of rounding of float32: the most by which a result of size 1 is off.
inline constexpr double kRoundingUnit = 0x1p-24;

/// What a number has gone through.
struct RoundingSteps {
  /// Results computed one from the other: layers, forward and backward.
  double chain = 1;
  /// Numbers in the longest sum. Their errors have either sign, so a sum is off
  /// by the root of their number.
  double terms = 1;
  /// Units of ReLUs so near 0 that rounding takes them to the other side. Such
  /// a one is a whole term of the sum, and adds to it or does not. (The weights
  /// of head conv after three turns: 7e-4 apart with the instructions of SSE
  /// and of AVX2, where they had moved by 0.03; 3e-7 for most heads.)
  double edges = 0;
};

/// The most by which two results of that size are apart: each is off by the
/// unit for each result of the chain, and twice that is left for luck.
inline double rounding_limit(double size, const RoundingSteps& rounded) {
  const double root = std::sqrt(rounded.terms);
  return size *
         (4 * kRoundingUnit * rounded.chain * root + rounded.edges / root);
}

/// The largest element.
inline double size_of(const NamedTensors& tensors) {
  double size = 0;
  for (const auto& [name, tensor] : tensors)
    if (tensor.is_floating_point() && tensor.numel() > 0)
      size = std::max(size, tensor.abs().max().item<double>());
  return size;
}

/// Without the statistics of normalisations.
inline NamedTensors parameters_of(const NamedTensors& weights) {
  NamedTensors all;
  for (const auto& named : weights)
    if (named.first.find("running_") == std::string::npos) all.push_back(named);
  return all;
}

/// As above, for weights after so many updates, each of which rounds the
/// weights, and moves them by a gradient that went through `gradient`; what an
/// update is off by, the next ones begin with.
inline double rounding_limit_of_training(const NamedTensors& first,
                                         const NamedTensors& last,
                                         double updates,
                                         const RoundingSteps& gradient) {
  const double moved = distance(parameters_of(first), last);
  return updates * (rounding_limit(size_of(parameters_of(last)), {}) +
                    rounding_limit(moved, gradient));
}

}  // namespace sluice
