#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>

#include "tests/simcuda/clock.h"

namespace sluice::simcuda {

/// Pinned memory of the host that somebody owns.
struct PinnedBlock {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool is_registered = false;  ///< its owner's, whom no allocator helps
  /// Copies that its allocator was not told of: LibTorch tells it of tensors
  /// whose storage it made, or that begin where the memory begins.
  std::vector<Use> unknown = {};
};

/// A copy into pinned memory that the host hasn't waited for: until then there
/// is poison.
struct CopyToHost {
  std::byte* to = nullptr;
  std::vector<std::byte> bytes = {};
  Use use = {};
};

/// The pinned memory that the address is in; nullptr where there is none.
PinnedBlock* find_pinned(const void* address);

enum class Registering { done, overlaps, too_much };
/// Memory of the program, pinned from now on. SIMCUDA_PINNED in the environment
/// says how many bytes may be.
Registering register_memory(std::byte* data, std::size_t bytes);
/// No longer; reports copies that may still use it. False: nothing that is
/// registered begins there.
bool unregister_memory(std::byte* data);

/// Notes a copy that reads or writes the tensor, which lies in it.
void record_copy(PinnedBlock& pinned, const at::Tensor& tensor, const Use& use);

/// Puts the bytes of the wanted copies in their place, and forgets them.
void finish_copies_to_host(
    const std::function<bool(const CopyToHost&)>& is_wanted);

at::HostAllocator& pinned_allocator();

}  // namespace sluice::simcuda
