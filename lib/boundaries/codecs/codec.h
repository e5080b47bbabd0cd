#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/base/table.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Writes the floating-point tensors that cross a boundary in fewer bytes, and
/// reads them again. Memoryless: what is sent of a batch depends on that batch
/// alone, for the next one has other samples. Immutable: any number of threads
/// may use one.
///
/// pack() and unpack() in lib/boundaries/codecs/coded.h are how one is used.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string_view name() const = 0;
  /// Whether it makes tensors of this floating-point type smaller; others are
  /// sent as they are.
  virtual bool takes(at::ScalarType type) const = 0;
  /// values: float32, dense, of any shape and order of strides, on any device
  /// that the program has loops for. What is sent of it; the first tensor has
  /// its sizes and strides.
  virtual Tensors encode(const at::Tensor& values) const = 0;
  /// The values again, float32, in the sizes and strides of the first of the
  /// parts, which is dense. Throws LinkError for parts that encode() can't have
  /// made.
  virtual at::Tensor decode(const Tensors& parts) const = 0;
};

/// The codecs of a run's boundaries, index k-1; nullptr: tensors are sent
/// unencoded.
using Codecs = std::vector<std::shared_ptr<const Codec>>;

using CodecRow = Row<std::shared_ptr<const Codec> (*)()>;

/// "none", which makes nullptr, and the others. A new codec is one source file
/// and one row.
std::span<const CodecRow> codecs();

}  // namespace sluice
