#include "lib/memory/allocator.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "lib/base/memory/blocks.h"

// Defined in programs with AddressSanitizer, ours or any that links us.
extern "C" [[gnu::weak]] void __asan_init();  // NOLINT

namespace sluice {
namespace {

// Priority of this allocator; LibTorch's own has 0.
constexpr std::uint8_t kPriority = 1;

// The allocator before ours. LibTorch's binding to oneDNN frees with the
// allocator of that moment, so that memory of the former one comes to ours.
c10::Allocator* former = nullptr;

void release(void* data) noexcept {
  if (data != nullptr) c10::profiledCPUMemoryReporter().Delete(data);
  if (!free_block(data)) former->raw_deallocate(data);
}

// Callers don't catch errors by the allocator's name, but some look for the
// text.
[[noreturn]] void throw_out_of_memory(std::size_t bytes) {
  c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
  TORCH_CHECK(false,
              "DefaultCPUAllocator: can't allocate memory: you tried to "
              "allocate ",
              bytes, " bytes. Error code ", ENOMEM,
              " (Cannot allocate memory)");
}

class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = allocated(bytes);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return data.get() == data.get_context();
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void* allocated(std::size_t bytes) {
    TORCH_CHECK(
        static_cast<std::ptrdiff_t>(bytes) >= 0,
        "alloc_cpu() seems to have been called with negative number: ", bytes);
    try {
      return allocate_block(bytes);
    } catch (const std::bad_alloc&) {
      throw_out_of_memory(bytes);
    }
  }
};

// Never destroyed: tensors are freed after main() too.
CachingAllocator& ours() {
  static auto* const allocator = new CachingAllocator;
  return *allocator;
}

}  // namespace

bool install_allocator() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (&__asan_init != nullptr) return false;
  if (allocator_installed()) return true;
  c10::Allocator* const before = c10::GetCPUAllocator();
  former = before;
  c10::SetCPUAllocator(&ours(), kPriority);
  return allocator_installed();
}

bool allocator_installed() {
  return c10::GetCPUAllocator() == &ours();
}

}  // namespace sluice
