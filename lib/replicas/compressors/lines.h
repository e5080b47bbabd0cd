#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/kernels/compressed.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Gradients as lines of float32 on the CPU, in the order of memory; those of
/// undefined ones are empty. Shares their storage where it can.
class GradientLines {
 public:
  explicit GradientLines(const Tensors& gradients);
  std::size_t size() const { return lines_.size(); }
  std::span<const float> of(std::size_t index) const;
  std::size_t elements() const;

 private:
  Tensors lines_;
};

/// Lines of zeros that become tensors like some gradients.
class SumLines {
 public:
  explicit SumLines(const Tensors& like);
  std::span<float> of(std::size_t index);
  /// Tensors in the types and on the devices of those gradients.
  Tensors tensors() const;

 private:
  Tensors like_;
  Tensors sums_;
};

/// Elements of a float32 tensor on the CPU, in the order of memory.
std::span<float> line_elements(const at::Tensor& tensor);

/// Zeros of float32 on the CPU, which lie as the parameters do and are called
/// "compress.<what>.<parameter>".
NamedTensors zeros_for(const NamedTensors& parameters, std::string_view what);

/// Elements of the tensor that belong to one output: its first dimension counts
/// rows, where there are more dimensions and it is the outermost in memory.
std::size_t output_row(const at::Tensor& tensor);

at::Tensor tensor_of_bytes(const EncodedBytes& bytes);
/// What a replica has sent. Throws LinkError unless it is a line of bytes; it
/// lies in `sent`, which is made contiguous.
std::span<const std::byte> bytes_of_replica(at::Tensor& sent, int member);

}  // namespace sluice
