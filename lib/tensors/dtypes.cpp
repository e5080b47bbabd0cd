#include "lib/tensors/dtypes.h"

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

struct Pair {
  DType dtype;
  at::ScalarType scalar;
};
constexpr Pair kPairs[] = {
    {DType::float32, at::kFloat}, {DType::float64, at::kDouble},
    {DType::float16, at::kHalf},  {DType::bfloat16, at::kBFloat16},
    {DType::int64, at::kLong},    {DType::int32, at::kInt},
    {DType::int16, at::kShort},   {DType::int8, at::kChar},
    {DType::uint8, at::kByte},    {DType::boolean, at::kBool},
};

}  // namespace

DType dtype_of(const at::Tensor& tensor) {
  for (const Pair& pair : kPairs)
    if (pair.scalar == tensor.scalar_type()) return pair.dtype;
  throw UserError("a tensor of type {} can be neither sent nor saved",
                  at::toString(tensor.scalar_type()));
}

at::ScalarType scalar_type(DType dtype) {
  for (const Pair& pair : kPairs)
    if (pair.dtype == dtype) return pair.scalar;
  throw InternalError("no element type {}", static_cast<int>(dtype));
}

}  // namespace sluice
