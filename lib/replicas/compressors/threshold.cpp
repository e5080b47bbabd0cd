// Signs of what has reached a threshold, which is then taken off what is left:
// Strom 2015, "Scalable distributed DNN training using commodity GPU cloud
// computing", section 3. At most one step per element and update; a sign and an
// index share a word.
#include <cmath>

#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {

CompressorKind compress_threshold(Fields& fields);

namespace {

class Steps final : public LineCompressor {
 public:
  explicit Steps(double threshold)
      : threshold_(static_cast<float>(threshold)) {}

  void encode(std::span<const float> values, const LinePlace& /*place*/,
              EncodedBytes& out) override {
    encode_steps(values, threshold_, out);
  }
  void decode(EncodedReader& in, const LinePlace& /*place*/,
              std::span<float> values) const override {
    decode_steps(in, threshold_, values);
  }

 private:
  const float threshold_;
};

}  // namespace

CompressorKind compress_threshold(Fields& fields) {
  double threshold = 1e-3;
  double expected = 0.01;
  bool has_error_feedback = true;
  fields.key("threshold", threshold,
             {.text = "magnitude from which on an element of a gradient is "
                      "sent, and as which it is",
              .min = 1e-30,
              .max = 1e30});
  fields.key("expected", expected,
             {.text = "part of the elements that plans and the virtual clock "
                      "take to be sent: gradients decide it",
              .min = 0,
              .max = 1});
  read_error_feedback(fields, has_error_feedback);
  return gathered(
      [threshold](const NamedTensors&, const ReplicaSite&) {
        return std::make_unique<Steps>(threshold);
      },
      [expected](double elements) {
        return 4 + 4 * std::ceil(expected * elements);
      },
      has_error_feedback);
}

}  // namespace sluice
