#include "tests/ratchet/operations.h"

#include <string_view>

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

namespace sluice {
namespace {

thread_local Operations* counting = nullptr;

/// Whether elements change their order. Dimensions of one element have no
/// stride that matters, and a stride of 0 is a value that is repeated.
bool changes_order(const at::Tensor& to, const at::Tensor& from) {
  if (to.sizes() != from.sizes()) return false;
  bool differs = false;
  for (std::int64_t i = 0; i < to.dim(); ++i) {
    if (to.size(i) == 1) continue;
    if (to.stride(i) == 0 || from.stride(i) == 0) return false;
    differs = differs || to.stride(i) != from.stride(i);
  }
  return differs;
}

std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& call) {
  if (counting == nullptr || std::string_view(call.name()) != "aten::copy_")
    return nullptr;
  const at::Tensor& to = call.inputs()[0].toTensor();
  const at::Tensor& from = call.inputs()[1].toTensor();
  counting->copied_bytes += static_cast<std::int64_t>(to.nbytes());
  if (changes_order(to, from)) ++counting->layout_copies;
  return nullptr;
}

void ends(const at::RecordFunction&, at::ObserverContext*) {}

}  // namespace

Operations& Operations::operator+=(const Operations& other) {
  allocations += other.allocations;
  copied_bytes += other.copied_bytes;
  layout_copies += other.layout_copies;
  return *this;
}

Operations Operations::operator-(const Operations& other) const {
  return {.allocations = allocations - other.allocations,
          .copied_bytes = copied_bytes - other.copied_bytes,
          .layout_copies = layout_copies - other.layout_copies};
}

/// To whom allocators, LibTorch's and ours, report.
class OperationCount::Memory final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*data*/, std::int64_t bytes,
                         std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/,
                         c10::Device /*device*/) override {
    if (bytes > 0) ++operations.allocations;
  }
  bool memoryProfilingEnabled() const override { return true; }

  Operations operations;
};

OperationCount::OperationCount()
    : memory_(std::make_shared<Memory>()),
      guard_(c10::DebugInfoKind::PROFILER_STATE, memory_),
      handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(begins, ends)
              .needsInputs(true)
              .scopes({at::RecordScope::FUNCTION}))) {
  counting = &memory_->operations;
}

OperationCount::~OperationCount() {
  counting = nullptr;
  at::removeCallback(handle_);
}

const Operations& OperationCount::so_far() const {
  return memory_->operations;
}

}  // namespace sluice
