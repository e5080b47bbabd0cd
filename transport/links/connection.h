#pragma once

#include <cstddef>
#include <vector>

#include "lib/base/messages/channel.h"
#include "transport/links/io_thread.h"
#include "transport/links/stream.h"
#include "transport/wire/link_options.h"

namespace sluice {

/// Makes a link of a connected stream whose peer has proved itself and said
/// hello; `first` is written before everything else (this end's hello, if it
/// was not written). The stream's socket must have been made on `io`, which
/// must outlive the link.
///
/// Payloads are sent from and received into the tensors' memory, without a copy
/// of ours; send() takes tensors on the CPU only. The ends may live on
/// different threads and be destroyed in any order; destroying never blocks,
/// and what was sent before is still written while the peer takes it.
///
/// Errors: a peer that goes without close(), an unreadable frame, or a passed
/// deadline make the link dead. Messages that had arrived are still received;
/// then both ends throw LinkError, which names the waiting block and its peer.
Link open_link(IoThread& io, Stream stream, LinkOptions options,
               std::vector<std::byte> first = {});

}  // namespace sluice
