#pragma once

#include <c10/core/Device.h>

#include "lib/kernels/codecs.h"

namespace sluice {

/// Where the arithmetic of the codec int8 runs: on the device of its tensors,
/// behind what LibTorch's current stream has there.
struct Loops {
  const CodecKernels& kernels;
  CodecKernels::Stream stream = nullptr;
};

/// Throws UserError for a device that the program has none for.
Loops loops_on(const c10::Device& device);

}  // namespace sluice
