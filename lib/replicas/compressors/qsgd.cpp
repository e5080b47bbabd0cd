// A few levels between 0 and the norm of a bucket, by chance so that the mean
// is the gradient: Alistarh, Grubic, Li, Tomioka and Vojnovic 2017, "QSGD"
// (arXiv:1610.02132), section 3.1, with equal numbers of bits in place of Elias
// codes. Chance is a function of seed, replica, update and the tensor's name.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {

CompressorKind compress_qsgd(Fields& fields);

namespace {

class Qsgd final : public LineCompressor {
 public:
  Qsgd(const Levels& levels, const NamedTensors& parameters,
       const ReplicaSite& site)
      : levels_(levels), site_(site) {
    for (const auto& [name, tensor] : parameters)
      keys_.push_back(key_part(name));
  }

  void encode(std::span<const float> values, const LinePlace& place,
              EncodedBytes& out) override {
    const std::uint64_t key = random_key(
        {site_.seed, key_part("qsgd"), static_cast<std::uint64_t>(site_.member),
         static_cast<std::uint64_t>(place.update.number),
         keys_.at(place.tensor)});
    encode_levels(values, levels_, key, out);
  }
  void decode(EncodedReader& in, const LinePlace& /*place*/,
              std::span<float> values) const override {
    decode_levels(in, levels_, values);
  }

 private:
  const Levels levels_;
  const ReplicaSite site_;
  std::vector<std::uint64_t> keys_;  // by tensor
};

double bytes_in_levels(const Levels& levels, double elements) {
  const auto bucket = static_cast<double>(levels.bucket);
  const double buckets = std::ceil(elements / bucket);
  return 4 * buckets + 4 * std::ceil(elements * levels.width() / 32);
}

}  // namespace

CompressorKind compress_qsgd(Fields& fields) {
  std::int64_t count = 7;
  std::int64_t bucket = 512;
  bool has_error_feedback = false;
  fields.key("levels", count,
             {.text = "steps from 0 to the norm, each way; an element becomes "
                      "as many bits as 2 levels + 1 numbers need",
              .min = 1,
              .max = 32767});
  fields.key("bucket", bucket,
             {.text = "elements that share a norm", .min = 1, .max = 1e9});
  read_error_feedback(fields, has_error_feedback);
  const Levels levels{.levels = static_cast<std::uint32_t>(count),
                      .bucket = static_cast<std::size_t>(bucket)};
  return gathered(
      [levels](const NamedTensors& parameters, const ReplicaSite& site) {
        return std::make_unique<Qsgd>(levels, parameters, site);
      },
      [levels](double elements) { return bytes_in_levels(levels, elements); },
      has_error_feedback);
}

}  // namespace sluice
