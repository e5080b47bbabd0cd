// Each number by itself as a shorter floating-point number, to the nearest,
// half to even. NaN stays NaN.
//
// fp16: magnitudes beyond 65504, infinities too, become 65504 with their sign;
// below 2^-14 numbers are multiples of 2^-24. bf16: the range of float32;
// beyond 3.39e38 a number becomes infinite.
#include <cstdint>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/loops.h"

namespace sluice {
namespace {

struct Format {
  std::string_view name;
  at::ScalarType type;
  decltype(CodecKernels::encode_fp16) CodecKernels::*encode;
  decltype(CodecKernels::decode_fp16) CodecKernels::*decode;
};

class TwoBytes final : public Codec {
 public:
  explicit TwoBytes(const Format& format) : format_(format) {}

  std::string_view name() const override { return format_.name; }

  bool takes(at::ScalarType type) const override {
    return c10::elementSize(type) > 2;
  }

  Tensors encode(const at::Tensor& values) const override {
    const c10::OptionalDeviceGuard guard(values.device());
    const Loops loops = loops_on(values.device());
    at::Tensor codes = at::empty_strided(values.sizes(), values.strides(),
                                         values.options().dtype(format_.type));
    (loops.kernels.*format_.encode)(
        values.const_data_ptr<float>(), values.numel(),
        static_cast<std::uint16_t*>(codes.data_ptr()), loops.stream);
    return {codes};
  }

  at::Tensor decode(const Tensors& parts) const override {
    if (parts.size() != 1 || parts[0].scalar_type() != format_.type)
      throw LinkError("what came is not a tensor as codec {} sends it",
                      format_.name);
    const at::Tensor& codes = parts[0];
    const c10::OptionalDeviceGuard guard(codes.device());
    const Loops loops = loops_on(codes.device());
    at::Tensor values = at::empty_strided(codes.sizes(), codes.strides(),
                                          codes.options().dtype(at::kFloat));
    (loops.kernels.*format_.decode)(
        static_cast<const std::uint16_t*>(codes.const_data_ptr()),
        codes.numel(), values.data_ptr<float>(), loops.stream);
    return values;
  }

 private:
  Format format_;
};

}  // namespace

std::shared_ptr<const Codec> make_fp16() {
  return std::make_shared<TwoBytes>(Format{"fp16", at::kHalf,
                                           &CodecKernels::encode_fp16,
                                           &CodecKernels::decode_fp16});
}

std::shared_ptr<const Codec> make_bf16() {
  return std::make_shared<TwoBytes>(Format{"bf16", at::kBFloat16,
                                           &CodecKernels::encode_bf16,
                                           &CodecKernels::decode_bf16});
}

}  // namespace sluice
