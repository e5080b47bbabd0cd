#pragma once

#include <string>

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include "lib/base/error.h"

namespace sluice {

/// Whether LibTorch threw it because the memory of a GPU has run out.
bool is_out_of_gpu_memory(const c10::Error& error);

/// The error to throw in its place: it names the block whose work it was
/// ("block 2"), the device and what helps. It is the user's to mend, so that a
/// run isn't restarted to meet it again.
UserError out_of_gpu_memory(const std::string& who, const c10::Device& device,
                            const c10::Error& error);

}  // namespace sluice
