// A bit per element that is not 0. The majority of the replicas' signs:
// Bernstein, Wang, Azizzadenesheli and Anandkumar 2018, "signSGD"
// (arXiv:1802.04434), algorithm 3, with a momentum Signum of algorithm 2; a tie
// is 0. With error feedback the mean of signs that have the mean magnitude of
// their tensor: Karimireddy, Rebjock, Stich and Jaggi 2019 (arXiv:1901.09847),
// algorithm 2, in units of gradients. All replicas get all signs, where the
// paper has a server count them. The sign of 0 is 0: nothing moves a weight
// that has no gradient. Where a tensor has zeros, which ones is a second bit
// per element.
#include <cmath>
#include <vector>

#include "lib/base/error.h"
#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {

CompressorKind compress_sign(Fields& fields);

namespace {

class ScaledSigns final : public LineCompressor {
 public:
  void encode(std::span<const float> values, const LinePlace& /*place*/,
              EncodedBytes& out) override {
    encode_signs(values, /*is_scaled=*/true, out);
  }
  void decode(EncodedReader& in, const LinePlace& /*place*/,
              std::span<float> values) const override {
    decode_signs(in, /*is_scaled=*/true, values);
  }
};

class MajorityVote final : public LineCompressor {
 public:
  MajorityVote(double momentum, const NamedTensors& parameters, int members)
      : momentum_(static_cast<float>(momentum)),
        members_(static_cast<float>(members)) {
    if (momentum > 0) means_ = zeros_for(parameters, "momentum");
  }

  void encode(std::span<const float> values, const LinePlace& place,
              EncodedBytes& out) override {
    if (means_.empty()) return encode_signs(values, /*is_scaled=*/false, out);
    const auto mean = line_elements(means_.at(place.tensor).second);
    for (std::size_t i = 0; i < values.size(); ++i)
      mean[i] = momentum_ * mean[i] + (1 - momentum_) * values[i];
    encode_signs(mean, /*is_scaled=*/false, out);
  }
  void decode(EncodedReader& in, const LinePlace& /*place*/,
              std::span<float> values) const override {
    decode_signs(in, /*is_scaled=*/false, values);
  }

  /// Divided by the number of replicas, it is 1, 0 or -1.
  void conclude(std::span<float> sum) const override {
    for (float& votes : sum)
      if (votes != 0) votes = std::copysign(members_, votes);
  }

  NamedTensors state() const override { return means_; }

 private:
  const float momentum_;
  const float members_;
  NamedTensors means_;
};

/// Where no element is zero; the number of zeros comes first: gradients decide
/// how many there are.
double bytes_of_signs(double elements) {
  return 4 + 4 * std::ceil(elements / 32);
}

double bytes_of_scaled_signs(double elements) {
  return 4 + bytes_of_signs(elements);
}

std::unique_ptr<LineCompressor> make_scaled_signs(const NamedTensors&,
                                                  const ReplicaSite&) {
  return std::make_unique<ScaledSigns>();
}

CompressorKind majority(double momentum) {
  CompressorKind kind = gathered(
      [momentum](const NamedTensors& parameters, const ReplicaSite& site) {
        return std::make_unique<MajorityVote>(momentum, parameters,
                                              site.members);
      },
      bytes_of_signs, /*has_error_feedback=*/false);
  kind.keeps_momentum = momentum > 0;
  kind.votes = true;
  return kind;
}

}  // namespace

CompressorKind compress_sign(Fields& fields) {
  double momentum = 0;
  bool has_error_feedback = false;
  fields.key("momentum", momentum,
             {.text = "of the mean of gradients whose signs each replica sends "
                      "(Signum); the optimizer then has none",
              .min = 0,
              .max = 1});
  fields.key("error_feedback", has_error_feedback,
             {.text = "signs have the mean magnitude of their tensor and are "
                      "averaged, and what that loses is added to the next "
                      "gradient; without it the majority decides"});
  if (!has_error_feedback) return majority(momentum);
  if (momentum > 0)
    fields.reject("momentum",
                  "is of the signs that a majority decides on: with "
                  "error_feedback = true give the optimizer one");
  return gathered(make_scaled_signs, bytes_of_scaled_signs,
                  /*has_error_feedback=*/true);
}

}  // namespace sluice
