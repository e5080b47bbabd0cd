#pragma once

#include <cstdint>

namespace sluice {

/// The loops of the codec int8 over plain arrays, without LibTorch: for the
/// CPU, or for a GPU. What a number becomes is said in lib/kernels/element.h,
/// and is the same bits on both.
///
/// All arrays lie on the device whose loops these are, and don't overlap. GPU
/// loops run on the current device in `stream`, a cudaStream_t, and return
/// before they are done; they throw InternalError when they can't be started.
/// CPU loops ignore `stream`.
struct CodecKernels {
  using Stream = void*;

  /// values: [rows, length]; scales[r] = int8_scale(row r).
  void (*encode_int8)(const float* values, std::int64_t rows,
                      std::int64_t length, std::int8_t* codes, float* scales,
                      Stream stream) = nullptr;
  void (*decode_int8)(const std::int8_t* codes, const float* scales,
                      std::int64_t rows, std::int64_t length, float* values,
                      Stream stream) = nullptr;
};

const CodecKernels& cpu_codec_kernels();

/// Kernels on CUDA devices; nullptr when the program was built without nvcc.
const CodecKernels* cuda_codec_kernels();

}  // namespace sluice
