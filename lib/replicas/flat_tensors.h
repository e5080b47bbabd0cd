#pragma once

#include <cstdint>
#include <vector>

#include "lib/tensors/parts.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Tensors as lines of elements, as they lie in memory, one after the other:
/// what replicas cut into equal parts. Undefined ones have no elements. Each
/// line begins at a multiple of kLine, so that a cut at such a multiple leaves
/// pieces that messages can share (kAlignment).
class FlatTensors {
 public:
  /// Shares their storage; what doesn't lie dense is copied.
  explicit FlatTensors(const Tensors& tensors);
  /// Elements [begin, end) of the whole, as pieces of the tensors: each one
  /// line.
  Tensors range(std::int64_t begin, std::int64_t end) const;
  /// Number of elements, gaps between the lines included.
  std::int64_t elements() const { return elements_; }
  /// A hash of which tensors there are, their types, sizes and strides: the
  /// same for all replicas, or element i of one would be another of the other.
  std::int64_t layout() const { return layout_; }
  /// The tensors themselves.
  const Tensors& tensors() const { return tensors_; }

 private:
  Tensors tensors_;
  Tensors lines_;
  std::int64_t elements_ = 0;
  std::int64_t layout_ = 0;
};

}  // namespace sluice
