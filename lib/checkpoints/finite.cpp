#include "lib/checkpoints/finite.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {
namespace {

/// A type of floating-point numbers by its bits: all ones in the exponent are
/// an infinity where the fraction is 0, else NaN.
template <class T>
struct FloatBits {
  T exponent;
  T fraction;

  bool is_special(T bits) const { return (bits & exponent) == exponent; }
  bool is_zero(T bits) const { return (bits & (exponent | fraction)) == 0; }
  bool is_infinite(T bits) const {
    return is_special(bits) && (bits & fraction) == 0;
  }
};

/// Whether a value is NaN or infinite; in pieces, whose loops have no branch.
template <class T>
bool has_special(std::span<const T> values, const FloatBits<T>& format) {
  constexpr std::size_t kPiece = 4096;
  for (; !values.empty();
       values = values.subspan(std::min(kPiece, values.size()))) {
    unsigned found = 0;
    for (const T bits : values.first(std::min(kPiece, values.size())))
      found |= static_cast<unsigned>(format.is_special(bits));
    if (found != 0) return true;
  }
  return false;
}

template <class T>
bool is_mask(std::span<const T> values, const FloatBits<T>& format) {
  const auto infinity = std::find_if(values.begin(), values.end(), [&](T bits) {
    return format.is_special(bits);
  });
  return infinity != values.end() && format.is_infinite(*infinity) &&
         std::all_of(values.begin(), values.end(), [&](T bits) {
           return bits == *infinity || format.is_zero(bits);
         });
}

template <class T>
bool is_finite(const at::Tensor& rows, const FloatBits<T>& format) {
  const std::span values(static_cast<const T*>(rows.const_data_ptr()),
                         static_cast<std::size_t>(rows.numel()));
  if (!has_special(values, format)) return true;
  return rows.dim() >= 2 && is_mask(values, format);
}

}  // namespace

bool is_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return true;
  const at::Tensor rows = tensor.detach().to(at::kCPU).contiguous();
  switch (rows.scalar_type()) {
    case at::kFloat:
      return is_finite<std::uint32_t>(rows, {0x7f800000U, 0x007fffffU});
    case at::kDouble:
      return is_finite<std::uint64_t>(
          rows, {0x7ff0000000000000U, 0x000fffffffffffffU});
    case at::kHalf:
      return is_finite<std::uint16_t>(rows, {0x7c00U, 0x03ffU});
    case at::kBFloat16:
      return is_finite<std::uint16_t>(rows, {0x7f80U, 0x007fU});
    default:
      return true;
  }
}

std::string first_not_finite(const NamedTensors& tensors) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(),
                   [](const auto& named) { return !is_finite(named.second); });
  return found == tensors.end() ? "" : found->first;
}

}  // namespace sluice
