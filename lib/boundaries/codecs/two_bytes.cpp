// Each number by itself as a shorter floating-point number, to the nearest,
// half to even. NaN stays NaN.
//
// fp16: magnitudes beyond 65504, infinities too, become 65504 with their sign;
// below 2^-14 numbers are multiples of 2^-24. bf16: the range of float32;
// beyond 3.39e38 a number becomes infinite.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"

namespace sluice {
namespace {

/// The numbers in another type, in their own layout.
at::Tensor copied_as(at::ScalarType type, const at::Tensor& numbers) {
  const at::NoGradGuard no_grad;
  return at::empty_strided(numbers.sizes(), numbers.strides(),
                           numbers.options().dtype(type))
      .copy_(numbers);
}

class TwoByteCodec final : public Codec {
 public:
  TwoByteCodec(std::string_view name, at::ScalarType type)
      : name_(name), type_(type) {}

  std::string_view name() const override { return name_; }

  bool takes(at::ScalarType type) const override {
    return c10::elementSize(type) > 2;
  }

  Tensors encode(const at::Tensor& values) const override {
    constexpr double kLargest = 65504;
    at::Tensor codes = copied_as(type_, values);
    if (type_ == at::kHalf) codes.clamp_(-kLargest, kLargest);
    return {codes};
  }

  at::Tensor decode(const Tensors& parts) const override {
    if (parts.size() != 1 || parts[0].scalar_type() != type_)
      throw LinkError("what came is not a tensor as codec {} sends it", name_);
    return copied_as(at::kFloat, parts[0]);
  }

 private:
  std::string_view name_;
  at::ScalarType type_;
};

}  // namespace

std::shared_ptr<const Codec> make_fp16() {
  return std::make_shared<TwoByteCodec>("fp16", at::kHalf);
}

std::shared_ptr<const Codec> make_bf16() {
  return std::make_shared<TwoByteCodec>("bf16", at::kBFloat16);
}

}  // namespace sluice
