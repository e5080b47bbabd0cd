// Each row as bytes -127..127, in 127ths of the row's largest magnitude, to the
// nearest, half to even; and that magnitude, the row's scale, as float32. So
// the error is at most half a 127th of it, the largest number is exact, and
// what has been encoded once is not changed by encoding it again.
//
// A row has numbers of a size: of images [N, C, H, W] (and of more dimensions)
// a row is a sample; of [N, C] too; of a sequence [N, T, C] a row is a place in
// it. A row of zeros has the scale 0. A row with an infinity or NaN becomes NaN
// throughout, so that a run that diverges is seen to.
#include <cstdint>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/loops.h"

namespace sluice {
namespace {

constexpr std::int64_t kImageDimensions = 4;

struct Rows {
  std::int64_t count = 1;
  std::int64_t length = 1;
};

Rows rows_of(const at::Tensor& values) {
  Rows rows;
  const std::int64_t last = values.dim() - 1;
  for (std::int64_t i = 0; i < values.dim(); ++i) {
    const bool counts = values.dim() < kImageDimensions ? i < last : i == 0;
    (counts ? rows.count : rows.length) *= values.size(i);
  }
  return rows;
}

/// Whether each row lies in one piece, and the rows in their order.
bool is_row_after_row(const at::Tensor& values) {
  if (values.is_contiguous()) return true;
  if (values.dim() < kImageDimensions) return false;
  return values.size(0) == 1 ||
         values.stride(0) * values.size(0) == values.numel();
}

/// A tensor like this one in which row comes after row.
at::Tensor in_rows(const at::Tensor& values) {
  return is_row_after_row(values) ? values : values.contiguous();
}

/// Tensor in the layout of `like`.
at::Tensor laid_like(const at::Tensor& like, const at::Tensor& tensor) {
  if (is_row_after_row(like)) return tensor;
  return at::empty_strided(like.sizes(), like.strides(), tensor.options())
      .copy_(tensor);
}

at::Tensor empty_like(const at::Tensor& tensor, at::ScalarType type) {
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().dtype(type));
}

class Int8 final : public Codec {
 public:
  std::string_view name() const override { return "int8"; }

  bool takes(at::ScalarType) const override { return true; }

  Tensors encode(const at::Tensor& values) const override {
    const c10::OptionalDeviceGuard guard(values.device());
    const Loops loops = loops_on(values.device());
    const at::Tensor from = in_rows(values);
    const Rows rows = rows_of(from);
    const at::Tensor codes = empty_like(from, at::kChar);
    const at::Tensor scales = at::empty({rows.count}, from.options());
    loops.kernels.encode_int8(from.const_data_ptr<float>(), rows.count,
                              rows.length, codes.data_ptr<std::int8_t>(),
                              scales.data_ptr<float>(), loops.stream);
    return {laid_like(values, codes), scales};
  }

  at::Tensor decode(const Tensors& parts) const override {
    check(parts);
    const c10::OptionalDeviceGuard guard(parts[0].device());
    const Loops loops = loops_on(parts[0].device());
    const at::Tensor codes = in_rows(parts[0]);
    const at::Tensor scales = parts[1].contiguous();
    const Rows rows = rows_of(codes);
    const at::Tensor values = empty_like(codes, at::kFloat);
    loops.kernels.decode_int8(
        codes.const_data_ptr<std::int8_t>(), scales.const_data_ptr<float>(),
        rows.count, rows.length, values.data_ptr<float>(), loops.stream);
    return laid_like(parts[0], values);
  }

 private:
  static void check(const Tensors& parts) {
    const bool fits = parts.size() == 2 &&
                      parts[0].scalar_type() == at::kChar &&
                      parts[1].scalar_type() == at::kFloat &&
                      parts[1].numel() == rows_of(parts[0]).count;
    if (!fits)
      throw LinkError("what came is not a tensor as codec int8 sends it");
  }
};

}  // namespace

std::shared_ptr<const Codec> make_int8() {
  return std::make_shared<Int8>();
}

}  // namespace sluice
