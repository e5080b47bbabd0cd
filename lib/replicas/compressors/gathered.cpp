#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {
namespace {

/// Beside the number of elements: the sender's gradient has a NaN or an
/// infinity. Few encodings have a place for these, and a replica that trained
/// on without them would hide that the run has diverged.
constexpr std::uint64_t kNotFiniteBit = std::uint64_t{1} << 63;

bool is_finite(const GradientLines& lines) {
  const auto is_number = [](float value) { return std::isfinite(value); };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto line = lines.of(i);
    if (!std::all_of(line.begin(), line.end(), is_number)) return false;
  }
  return true;
}

class GatheredExchange final : public GradientExchange {
 public:
  explicit GatheredExchange(std::unique_ptr<LineCompressor> compressor)
      : compressor_(std::move(compressor)) {}

  void start(const Tensors& gradients, const ExchangedUpdate& update,
             Group& group) override {
    const at::NoGradGuard no_grad;
    like_ = gradients;
    update_ = update;
    const GradientLines lines(gradients);
    elements_ = lines.elements();
    EncodedBytes bytes = encoded(lines);
    const auto members = static_cast<std::size_t>(group.members());
    sent_bytes_ += static_cast<std::int64_t>(bytes.size() * (members - 1));
    group.start_swap(Tensors(members, tensor_of_bytes(bytes)));
  }

  Tensors finish(Group& group) override {
    const at::NoGradGuard no_grad;
    Tensors sent = group.finish_swap();
    SumLines sums(like_);
    is_finite_ = true;
    for (int member = 1; member <= group.members(); ++member)
      add(bytes_of_replica(by_block(sent, member), member), member, sums);
    for (std::size_t i = 0; i < like_.size(); ++i) {
      const std::span<float> sum = sums.of(i);
      if (is_finite_)
        compressor_->conclude(sum);
      else
        std::fill(sum.begin(), sum.end(),
                  std::numeric_limits<float>::quiet_NaN());
    }
    like_.clear();
    return sums.tensors();
  }

  NamedTensors state() const override { return compressor_->state(); }
  std::int64_t sent_bytes() const override { return sent_bytes_; }

 private:
  EncodedBytes encoded(const GradientLines& lines) {
    EncodedBytes bytes;
    if (!is_finite(lines)) {
      append_long_word(elements_ | kNotFiniteBit, bytes);
      return bytes;
    }
    append_long_word(elements_, bytes);
    compressor_->begin(lines);
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (like_[i].defined())
        compressor_->encode(lines.of(i), place_of(i), bytes);
    return bytes;
  }

  LinePlace place_of(std::size_t index) const {
    return {
        .tensor = index, .row = output_row(like_[index]), .update = update_};
  }

  void add(std::span<const std::byte> bytes, int member, SumLines& sums) {
    try {
      EncodedReader in(bytes);
      const std::uint64_t elements = in.long_word();
      if ((elements & ~kNotFiniteBit) != elements_)
        throw LinkError("of another number of elements than {}", elements_);
      if (elements == elements_) {
        for (std::size_t i = 0; i < like_.size(); ++i)
          if (like_[i].defined()) add(in, i, member == 1, sums.of(i));
      } else {
        is_finite_ = false;
      }
      in.finish();
    } catch (const LinkError& error) {
      throw LinkError("what replica {} has sent: {}", member, error.what());
    }
  }

  void add(EncodedReader& in, std::size_t index, bool is_first,
           std::span<float> sum) {
    if (is_first) return compressor_->decode(in, place_of(index), sum);
    decoded_.resize(sum.size());
    compressor_->decode(in, place_of(index), decoded_);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += decoded_[i];
  }

  const std::unique_ptr<LineCompressor> compressor_;
  Tensors like_;  // gradients of the exchange that is under way
  ExchangedUpdate update_;
  std::uint64_t elements_ = 0;
  bool is_finite_ = true;  // all that was sent
  std::vector<float> decoded_;
  std::int64_t sent_bytes_ = 0;
};

double elements_in(const TensorSizes& sizes) {
  double elements = 1;
  for (const std::int64_t size : sizes) elements *= static_cast<double>(size);
  return elements;
}

}  // namespace

CompressorKind gathered(MakeLineCompressor make,
                        std::function<double(double elements)> bytes,
                        bool has_error_feedback, double error_decay) {
  CompressorKind kind{.way = ExchangeWay::to_all};
  kind.make =
      [make = std::move(make), has_error_feedback, error_decay](
          const NamedTensors& parameters,
          const ReplicaSite& site) -> std::unique_ptr<GradientExchange> {
    auto compressor = make(parameters, site);
    if (has_error_feedback)
      compressor =
          with_error_feedback(std::move(compressor),
                              zeros_for(parameters, "residual"), error_decay);
    return std::make_unique<GatheredExchange>(std::move(compressor));
  };
  kind.bytes = [bytes = std::move(bytes)](const std::vector<TensorSizes>& all) {
    double sum = kMessageBytes;
    for (const TensorSizes& sizes : all) sum += bytes(elements_in(sizes));
    return sum;
  };
  return kind;
}

}  // namespace sluice
