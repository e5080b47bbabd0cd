// The largest magnitudes of each tensor's gradient; what is left out is added
// to the next one: Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with
// memory" (arXiv:1809.07599), algorithm 1 with all replicas and without the
// rate in its memory.
#include <cmath>

#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {

CompressorKind compress_top_k(Fields& fields);

namespace {

std::uint64_t kept_of(double ratio, std::size_t elements) {
  return static_cast<std::uint64_t>(
      std::ceil(ratio * static_cast<double>(elements)));
}

class TopK final : public LineCompressor {
 public:
  explicit TopK(double ratio) : ratio_(ratio) {}

  void encode(std::span<const float> values, const LinePlace& /*place*/,
              EncodedBytes& out) override {
    encode_sparse(values, largest(values, kept_of(ratio_, values.size())), out);
  }
  void decode(EncodedReader& in, const LinePlace& /*place*/,
              std::span<float> values) const override {
    decode_sparse(in, values);
  }

 private:
  const double ratio_;
};

}  // namespace

CompressorKind compress_top_k(Fields& fields) {
  double ratio = 0.01;
  bool has_error_feedback = true;
  fields.key(
      "ratio", ratio,
      {.text = "part of each tensor's elements that is sent, rounded up; "
               "1: all, uncompressed",
       .min = 1e-9,
       .max = 1});
  read_error_feedback(fields, has_error_feedback);
  if (ratio == 1) return {};
  return gathered(
      [ratio](const NamedTensors&, const ReplicaSite&) {
        return std::make_unique<TopK>(ratio);
      },
      [ratio](double elements) { return 4 + 8 * std::ceil(ratio * elements); },
      has_error_feedback);
}

}  // namespace sluice
