#include "lib/base/memory/cached_buffers.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/memory/blocks.h"

namespace sluice {

BufferSource cached_buffers(std::shared_ptr<const MemoryAccount> account) {
  return [account = std::move(account)](std::size_t bytes) -> Buffer {
    const MemoryScope scope(*account);
    std::shared_ptr<void> owner(allocate_block(std::max<std::size_t>(bytes, 1)),
                                [](void* data) {
                                  if (!free_block(data))
                                    std::terminate();  // it is one of ours
                                });
    Buffer buffer;
    buffer.data = static_cast<std::byte*>(owner.get());
    buffer.bytes = bytes;
    buffer.owner = std::move(owner);
    return buffer;
  };
}

}  // namespace sluice
