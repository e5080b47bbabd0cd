#pragma once

#include <memory>

#include "lib/base/channel.h"
#include "lib/boundaries/witness.h"

namespace sluice {

/// A witness in another process: what it would see goes over the worker's
/// control link. It watches every `every` turns.
std::shared_ptr<Witness> remote_witness(Sender& control, std::int64_t every);

/// The other side: tells the witness what a message of kind `witness` says.
/// Throws LinkError when it says nothing.
void tell(const Message& message, Witness& witness);

}  // namespace sluice
