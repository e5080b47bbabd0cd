// Deep gradient compression: Lin, Han, Mao, Wang and Dally 2018
// (arXiv:1712.01887), sections 3.1 to 3.3. Each replica has the momentum, and
// sends the largest magnitudes of what it has added up; momentum and sum begin
// anew where they were sent. The largest are found exactly, where the paper
// takes a threshold from a sample.
#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {

CompressorKind compress_dgc(Fields& fields);

namespace {

struct DgcOptions {
  double ratio = 1e-3;
  double momentum = 0.9;
  bool masking = true;
  double clip = 0;
  double warmup_epochs = 0;

  /// Part of the elements that is sent: down to `ratio` in equal factors, one
  /// each epoch.
  double ratio_at(double epoch) const {
    if (epoch >= warmup_epochs) return ratio;
    return std::pow(ratio, (std::floor(epoch) + 1) / (warmup_epochs + 1));
  }
};

class Dgc final : public LineCompressor {
 public:
  Dgc(const DgcOptions& options, const NamedTensors& parameters, int members)
      : options_(options),
        members_(members),
        momentum_(zeros_for(parameters, "momentum")),
        sum_(zeros_for(parameters, "residual")) {}

  void begin(const GradientLines& gradients) override {
    scale_ = 1;
    if (options_.clip == 0) return;
    double squares = 0;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      for (const float value : gradients.of(i))
        squares += static_cast<double>(value) * static_cast<double>(value);
    const double most = options_.clip / std::sqrt(members_);
    const double norm = std::sqrt(squares);
    if (norm > most) scale_ = static_cast<float>(most / norm);
  }

  void encode(std::span<const float> values, const LinePlace& place,
              EncodedBytes& out) override {
    const auto momentum = line_elements(momentum_.at(place.tensor).second);
    const auto sum = line_elements(sum_.at(place.tensor).second);
    const auto factor = static_cast<float>(options_.momentum);
    for (std::size_t i = 0; i < values.size(); ++i) {
      momentum[i] = factor * momentum[i] + scale_ * values[i];
      sum[i] += momentum[i];
    }
    const auto sent = largest(sum, count_at(place.update.epoch, values.size()));
    encode_sparse(sum, sent, out);
    for (const std::uint32_t index : sent) {
      sum[index] = 0;
      if (options_.masking) momentum[index] = 0;
    }
  }

  void decode(EncodedReader& in, const LinePlace& /*place*/,
              std::span<float> values) const override {
    decode_sparse(in, values);
  }

  NamedTensors state() const override {
    NamedTensors all = momentum_;
    all.insert(all.end(), sum_.begin(), sum_.end());
    return all;
  }

 private:
  std::uint64_t count_at(double epoch, std::size_t elements) const {
    return static_cast<std::uint64_t>(
        std::ceil(options_.ratio_at(epoch) * static_cast<double>(elements)));
  }

  const DgcOptions options_;
  const int members_;
  const NamedTensors momentum_;
  const NamedTensors sum_;  // of the momentum, since it was sent
  float scale_ = 1;         // of the update's gradients
};

}  // namespace

CompressorKind compress_dgc(Fields& fields) {
  DgcOptions options;
  fields.key("ratio", options.ratio,
             {.text = "part of each tensor's elements that is sent, rounded up",
              .min = 1e-9,
              .max = 1});
  fields.key("momentum", options.momentum,
             {.text = "that each replica has before it sends; the optimizer "
                      "then has none",
              .min = 0,
              .max = 1});
  fields.key("masking", options.masking,
             {.text = "the momentum, too, begins anew where it was sent"});
  fields.key("clip", options.clip,
             {.text = "largest norm of the gradients of all replicas of a "
                      "block: each one's are clipped to it over the root of "
                      "their number; 0: not at all",
              .min = 0,
              .max = 1e12});
  fields.key("warmup_epochs", options.warmup_epochs,
             {.text = "epochs in which the part that is sent goes down to "
                      "ratio, by the same factor each; the paper has 4",
              .unit = "epochs",
              .min = 0,
              .max = 1e6});
  CompressorKind kind = gathered(
      [options](const NamedTensors& parameters, const ReplicaSite& site) {
        return std::make_unique<Dgc>(options, parameters, site.members);
      },
      [ratio = options.ratio](double elements) {
        return 4 + 8 * std::ceil(ratio * elements);
      },
      /*has_error_feedback=*/false);  // it has its own
  kind.keeps_momentum = options.momentum > 0;
  return kind;
}

}  // namespace sluice
