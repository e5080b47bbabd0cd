#pragma once

#include <memory>

#include "lib/base/buffer.h"
#include "lib/base/memory/account.h"

namespace sluice {

/// Supplies memory of allocate_block() and charges it to the account. Any
/// thread may call it.
BufferSource cached_buffers(std::shared_ptr<const MemoryAccount> account);

}  // namespace sluice
