#pragma once

namespace sluice {

/// Makes all CPU tensors of this process, LibTorch's temporaries included, come
/// from Sluice's caching allocator (lib/base/memory/blocks.h): no page faults
/// in a training loop, and MemoryAccounts that count. Tensors keep their bits:
/// both allocators align to 64 bytes. Tensors that exist already stay valid and
/// go back to where they came from. torch::profiler sees allocations as before,
/// and errors are those of LibTorch's allocator.
///
/// LibTorch's setting has no lock: call it before other threads use LibTorch. A
/// second call does nothing. Returns whether tensors come from it now: not
/// under AddressSanitizer, which could not find errors in cached memory, and
/// not when the application set an allocator with a priority above 1.
bool install_allocator();

/// Whether tensors come from Sluice's allocator.
bool allocator_installed();

}  // namespace sluice
