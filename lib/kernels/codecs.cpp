#include "lib/kernels/codecs.h"

#include <algorithm>

#include "lib/kernels/element.h"

// Rounding is one instruction on processors with AVX2 and a call on others; so
// the loops are compiled for both, and the program chooses when it starts,
// which is too early for sanitizers. The bits are the same.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SLUICE_ALSO_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define SLUICE_ALSO_AVX2
#endif

namespace sluice {
namespace {

using Stream = CodecKernels::Stream;

SLUICE_ALSO_AVX2
void encode_int8(const float* __restrict values, std::int64_t rows,
                 std::int64_t length, std::int8_t* __restrict codes,
                 float* __restrict scales, Stream) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* mine = values + row * length;
    std::uint32_t largest = 0;
    for (std::int64_t i = 0; i < length; ++i)
      largest = std::max(largest, magnitude_bits(mine[i]));
    const float scale = int8_scale(largest);
    scales[row] = scale;
    for (std::int64_t i = 0; i < length; ++i)
      codes[row * length + i] = int8_of(mine[i], scale);
  }
}

SLUICE_ALSO_AVX2
void decode_int8(const std::int8_t* __restrict codes,
                 const float* __restrict scales, std::int64_t rows,
                 std::int64_t length, float* __restrict values, Stream) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float scale = scales[row];
    for (std::int64_t i = row * length; i < (row + 1) * length; ++i)
      values[i] = float_of_int8(codes[i], scale);
  }
}

}  // namespace

const CodecKernels& cpu_codec_kernels() {
  static constexpr CodecKernels kKernels = {encode_int8, decode_int8};
  return kKernels;
}

#ifndef SLUICE_CUDA
// Weak: a program that is linked with tests/simcuda has another one.
__attribute__((weak)) const CodecKernels* cuda_codec_kernels() {
  return nullptr;
}
#endif

}  // namespace sluice
