#include "lib/boundaries/codecs/feedback.h"

#include <map>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "lib/boundaries/codecs/layout.h"

namespace sluice {
namespace {

/// Whether rows of the two have the same shape.
bool are_alike(const at::Tensor& held, const at::Tensor& values) {
  return held.defined() && held.dim() == values.dim() && held.dim() > 0 &&
         held.sizes().slice(1) == values.sizes().slice(1);
}

class Feedback final : public CodecEnd {
 public:
  explicit Feedback(std::shared_ptr<const Codec> codec)
      : codec_(std::move(codec)) {}

  Tensors encode(const at::Tensor& values, const CodedPlace& place) override {
    const at::NoGradGuard no_grad;
    const at::Tensor held =
        held_for(values, fmt::format("{}.{}", place.tensor, place.slot));
    // Where nothing is held -0 stays what it is.
    const at::Tensor wanted = laid_out(
        at::where(held.eq(0), values, held + values), coded_layout_of(values));
    Tensors parts = codec_->encode(wanted);
    held.copy_(wanted - codec_->decode(parts));
    return parts;
  }

  at::Tensor decode(const Tensors& parts,
                    const CodedPlace& /*place*/) override {
    return codec_->decode(parts);
  }

  NamedTensors state() const override {
    NamedTensors all;
    for (const auto& [name, held] : held_)
      all.emplace_back(name, held.to(at::kCPU, /*non_blocking=*/false,
                                     /*copy=*/true));
    return all;
  }

  void restore(const NamedTensors& state) override {
    held_ = {};
    for (const auto& [name, held] : state) held_[name] = held.clone();
  }

  std::int64_t bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& [name, held] : held_)
      bytes += static_cast<std::int64_t>(held.nbytes());
    return bytes;
  }

 private:
  /// What is held for the rows of these values; shares the memory of held_.
  at::Tensor held_for(const at::Tensor& values, const std::string& name) {
    at::Tensor& held = held_[name];
    const auto zeros = [&](const at::Tensor& rows) {
      return at::zeros(rows.sizes(), values.options());
    };
    if (!are_alike(held, values))
      held = zeros(values);
    else if (held.device() != values.device())
      held = held.to(values.device());
    if (values.dim() == 0) return held;
    const std::int64_t more = values.size(0) - held.size(0);
    if (more > 0) held = at::cat({held, zeros(values.narrow(0, 0, more))});
    return held.narrow(0, 0, values.size(0));
  }

  std::shared_ptr<const Codec> codec_;
  std::map<std::string, at::Tensor> held_;  // by tensor and slot
};

}  // namespace

std::unique_ptr<CodecEnd> with_feedback(std::shared_ptr<const Codec> codec) {
  return std::make_unique<Feedback>(std::move(codec));
}

}  // namespace sluice
