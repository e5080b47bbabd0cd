#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "lib/kernels/compressed.h"
#include "lib/replicas/compressor.h"
#include "lib/replicas/compressors/lines.h"

namespace sluice {

/// Place of a line's elements in the gradients.
struct LinePlace {
  std::size_t tensor = 0;  ///< index of the parameter
  std::size_t offset = 0;  ///< of the first element
  std::size_t row = 1;     ///< elements that belong together: output_row()
  ExchangedUpdate update = {};
};

/// Turns a line of a gradient into bytes, and bytes that any replica has made
/// of its own into a line. Used by one thread.
class LineCompressor {
 public:
  virtual ~LineCompressor() = default;
  /// Called before the lines of an update are encoded.
  virtual void begin(const GradientLines& /*gradients*/) {}
  virtual void encode(std::span<const float> values, const LinePlace& place,
                      EncodedBytes& out) = 0;
  /// Decodes a line. Throws LinkError for bytes that encode() can't have made
  /// of a line of that length.
  virtual void decode(EncodedReader& in, const LinePlace& place,
                      std::span<float> values) const = 0;
  /// Turns the sum over the replicas into what stands for it.
  virtual void conclude(std::span<float> /*sum*/) const {}
  /// Tensors that a checkpoint keeps, as of GradientExchange.
  virtual NamedTensors state() const { return {}; }
};

using MakeLineCompressor = std::function<std::unique_ptr<LineCompressor>(
    const NamedTensors& parameters, const ReplicaSite& site)>;

/// Decorates a compressor with error feedback: what encoding has lost of a line
/// is added to the next gradient there, so that all that was sent and what is
/// held add up to all gradients (Seide et al. 2014; Karimireddy et al. 2019,
/// arXiv:1901.09847, algorithm 2 without its rate). `residuals` are zeros, by
/// index of the tensor, and become its state. Of what is held, `decay` is kept
/// from one exchange to the next: with 1 all of it.
std::unique_ptr<LineCompressor> with_error_feedback(
    std::unique_ptr<LineCompressor> compressor, NamedTensors residuals,
    double decay = 1);

/// Each replica sends its encoded gradients to all others, and all decode and
/// add them up in the order of the replicas. bytes: what a tensor of so many
/// elements becomes. error_decay: as of with_error_feedback().
CompressorKind gathered(MakeLineCompressor make,
                        std::function<double(double elements)> bytes,
                        bool has_error_feedback, double error_decay = 1);

/// Reads the key of error feedback, whose default the method states.
void read_error_feedback(Fields& fields, bool& value);

/// What a message begins with: the number of all elements, by which replicas
/// notice that they lay out other tensors.
inline constexpr double kMessageBytes = 8;

}  // namespace sluice
