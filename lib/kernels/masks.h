#pragma once

#include <cstdint>

namespace sluice {

/// Rule for the elements of a dropout's mask, by its index in row-major order:
/// 0 where number index % 4 of philox(index / 4, key) is below `dropped_below`,
/// else `kept`. So it depends on neither device nor memory layout, nor on which
/// elements are drawn beside it.
struct MaskRule {
  std::uint64_t key = 0;
  std::uint32_t dropped_below = 0;  ///< of 2^32
  float kept = 1;
};

/// 0 with probability p, 0 <= p < 1, rounded down to a multiple of 2^-32; else
/// 1 / (1 - p).
MaskRule mask_rule(double p, std::uint64_t key);

/// Samples of [channels, pixels] elements which lie as [pixels, channels].
struct ChannelsLast {
  std::int64_t first_sample = 0;
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  std::int64_t pixels = 0;
};

/// The loops that draw masks, over plain arrays, without LibTorch: of the CPU,
/// or of a GPU. The bits are the same. For arrays and streams holds what
/// lib/kernels/codecs.h says.
struct MaskKernels {
  using Stream = void*;

  /// mask[i] = element first + i, for i in [0, count).
  void (*fill)(const MaskRule& rule, std::int64_t first, std::int64_t count,
               float* mask, Stream stream) = nullptr;
  /// mask[0] is element 0 of the first sample.
  void (*fill_channels_last)(const MaskRule& rule, const ChannelsLast& shape,
                             float* mask, Stream stream) = nullptr;
  /// Whether the loops can write there. Memory of a simulated GPU is none of
  /// CUDA's.
  bool (*reaches)(const float* mask) = nullptr;
};

const MaskKernels& cpu_mask_kernels();

/// Kernels on CUDA devices; nullptr when the program was built without nvcc.
const MaskKernels* cuda_mask_kernels();

}  // namespace sluice
