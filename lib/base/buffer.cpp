#include "lib/base/buffer.h"

#include <algorithm>
#include <limits>
#include <new>

#include <fmt/ranges.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

// Product of two numbers that are >= 0; throws when it leaves int64.
std::int64_t multiplied(std::int64_t a, std::int64_t b,
                        const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw UserError("tensor of sizes [{}] has more than 2^63 bytes",
                    fmt::join(sizes, ", "));
  }
  return product;
}

void check_ranges(const std::vector<std::int64_t>& sizes,
                  const std::vector<std::int64_t>& strides) {
  if (sizes.size() != strides.size()) {
    throw UserError("tensor has {} sizes, but {} strides", sizes.size(),
                    strides.size());
  }
  if (sizes.size() > kMaxDimensions) {
    throw UserError("tensor has {} dimensions; at most {} are allowed",
                    sizes.size(), kMaxDimensions);
  }
  const auto negative = [](std::int64_t value) { return value < 0; };
  if (std::any_of(sizes.begin(), sizes.end(), negative) ||
      std::any_of(strides.begin(), strides.end(), negative)) {
    throw UserError(
        "tensor has sizes [{}] and strides [{}]; none may be "
        "negative",
        fmt::join(sizes, ", "), fmt::join(strides, ", "));
  }
}

// The bytes of the whole tensor, repeated dimensions included, must fit too: an
// expanded tensor computes with that number. A size of 0 counts as 1, because
// LibTorch multiplies from the left before it meets the 0.
void check_expanded(DType dtype, const std::vector<std::int64_t>& sizes) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t size : sizes) {
    bytes = multiplied(bytes, std::max<std::int64_t>(size, 1), sizes);
  }
}

}  // namespace

Buffer allocate_buffer(std::size_t bytes) {
  constexpr std::align_val_t kAligned{kAlignment};
  void* memory = ::operator new(bytes, kAligned);
  std::shared_ptr<void> owner(
      memory, [](void* data) { ::operator delete(data, kAligned); });
  return {.data = static_cast<std::byte*>(memory),
          .bytes = bytes,
          .owner = std::move(owner)};
}

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::int64:
      return 8;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float16:
    case DType::bfloat16:
    case DType::int16:
      return 2;
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return 1;
  }
  throw InternalError("{} is no DType", static_cast<int>(dtype));
}

bool is_dtype(std::uint8_t value) {
  return value >= static_cast<std::uint8_t>(DType::float32) &&
         value <= static_cast<std::uint8_t>(DType::boolean);
}

std::size_t stored_bytes(DType dtype, const std::vector<std::int64_t>& sizes,
                         const std::vector<std::int64_t>& strides) {
  check_ranges(sizes, strides);
  check_expanded(dtype, sizes);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;

  // A dimension of size 1 takes part in no address, so its stride is free.
  std::vector<std::size_t> stored;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1 && strides[i] != 0) stored.push_back(i);
  }
  std::sort(stored.begin(), stored.end(), [&](std::size_t a, std::size_t b) {
    return strides[a] < strides[b];
  });
  std::int64_t elements = 1;
  for (const std::size_t i : stored) {
    if (strides[i] != elements) {
      throw UserError(
          "tensor of sizes [{}] has strides [{}], which are not dense",
          fmt::join(sizes, ", "), fmt::join(strides, ", "));
    }
    elements *= sizes[i];
  }
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

}  // namespace sluice
