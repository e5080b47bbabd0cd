#include "lib/boundaries/codecs/loops.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "lib/base/error.h"

namespace sluice {

Loops loops_on(const c10::Device& device) {
  if (device.is_cpu()) return {cpu_codec_kernels()};
  const CodecKernels* cuda = cuda_codec_kernels();
  if (!device.is_cuda() || cuda == nullptr)
    throw UserError(
        "the boundaries of a block on {} can't have the codec int8: {}; set "
        "codec = 'fp16' there, or 'none'",
        device.str(),
        device.is_cuda() ? "this program was built without nvcc"
                         : "it is for cpu and cuda");
  const c10::impl::VirtualGuardImpl guard(device.type());
  return {*cuda, guard.getStream(device).native_handle()};
}

}  // namespace sluice
