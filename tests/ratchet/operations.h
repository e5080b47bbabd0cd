#pragma once

#include <cstdint>
#include <memory>

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace sluice {

/// What computing costs beside arithmetic, in numbers that don't depend on how
/// fast or how busy the machine is.
struct Operations {
  std::int64_t allocations = 0;    ///< of CPU tensors, LibTorch's own included
  std::int64_t copied_bytes = 0;   ///< by aten::copy_, which clone() and
                                   ///< contiguous() call
  std::int64_t layout_copies = 0;  ///< of those, between different strides

  Operations& operator+=(const Operations& other);
  Operations operator-(const Operations& other) const;
};

/// While it lives, operations of this thread are counted; backward passes of
/// CPU tensors run in the thread that asks for them.
class OperationCount {
 public:
  OperationCount();
  ~OperationCount();
  OperationCount(const OperationCount&) = delete;
  OperationCount& operator=(const OperationCount&) = delete;

  const Operations& so_far() const;

 private:
  class Memory;

  std::shared_ptr<Memory> memory_;
  c10::DebugInfoGuard guard_;
  at::CallbackHandle handle_;
};

}  // namespace sluice
