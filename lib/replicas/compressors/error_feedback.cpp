#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {
namespace {

class ErrorFeedback final : public LineCompressor {
 public:
  ErrorFeedback(std::unique_ptr<LineCompressor> compressor,
                NamedTensors residuals, double decay)
      : compressor_(std::move(compressor)),
        residuals_(std::move(residuals)),
        decay_(static_cast<float>(decay)) {}

  void begin(const GradientLines& gradients) override {
    compressor_->begin(gradients);
  }

  void encode(std::span<const float> values, const LinePlace& place,
              EncodedBytes& out) override {
    const std::span<float> residual =
        line_elements(residuals_.at(place.tensor).second)
            .subspan(place.offset, values.size());
    if (decay_ != 1)
      for (float& each : residual) each *= decay_;
    for (std::size_t i = 0; i < values.size(); ++i) residual[i] += values[i];
    const std::size_t begin = out.size();
    compressor_->encode(residual, place, out);
    decoded_.resize(values.size());
    EncodedReader in(std::span<const std::byte>(out).subspan(begin));
    compressor_->decode(in, place, decoded_);
    for (std::size_t i = 0; i < values.size(); ++i) residual[i] -= decoded_[i];
  }

  void decode(EncodedReader& in, const LinePlace& place,
              std::span<float> values) const override {
    compressor_->decode(in, place, values);
  }

  void conclude(std::span<float> sum) const override {
    compressor_->conclude(sum);
  }

  NamedTensors state() const override {
    NamedTensors all = compressor_->state();
    all.insert(all.end(), residuals_.begin(), residuals_.end());
    return all;
  }

 private:
  const std::unique_ptr<LineCompressor> compressor_;
  const NamedTensors residuals_;
  const float decay_;
  std::vector<float> decoded_;
};

}  // namespace

std::unique_ptr<LineCompressor> with_error_feedback(
    std::unique_ptr<LineCompressor> compressor, NamedTensors residuals,
    double decay) {
  return std::make_unique<ErrorFeedback>(std::move(compressor),
                                         std::move(residuals), decay);
}

void read_error_feedback(Fields& fields, bool& value) {
  fields.key("error_feedback", value,
             {.text = "what a replica has not sent of its gradient is added to "
                      "the next one; a part of the checkpoint"});
}

}  // namespace sluice
