#pragma once

namespace sluice {

/// Throws InternalError. For .cu files: nvcc can't compile fmt, so they don't
/// include lib/base/error.h.
[[noreturn]] void cuda_failure(const char* what, const char* why);

}  // namespace sluice
