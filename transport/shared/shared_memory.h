#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/base/channel.h"
#include "transport/links/io_thread.h"
#include "transport/links/stream.h"
#include "transport/links/transport.h"
#include "transport/wire/link_options.h"

namespace sluice {

/// Makes a link that moves its frames through memory that both processes share;
/// otherwise as open_link() (connection.h), of whose threads, errors and
/// destruction all is true here. `socket` is a UNIX-domain socket, which passes
/// the memory once and then says whether the peer lives.
///
/// Copies: one into the ring, on the sender's thread as far as there is room;
/// one out of it into memory of options.buffers, mostly on the thread that
/// waits for the message. Throws UserError when there is no memory for it
/// (options.shared_memory says how much it takes).
Link open_shared_link(IoThread& io, Stream stream, LinkOptions options,
                      std::vector<std::byte> first = {});

/// Memory to fill and then send without any copy: the slots of the link, and
/// ordinary memory when all are in use, when `bytes` are more than a slot has,
/// or when the sender is of another kind. The receiver gets the very same
/// bytes, and gives the slot back with its last copy of the buffer. Buffers may
/// outlive the link; any thread may call it.
BufferSource slots_of(const Sender& sender);

/// Bytes of payload that this end of a link over shared memory has copied: none
/// of what went in slots. 0 for ends of other kinds.
std::uint64_t copied_bytes(const Sender& sender);
std::uint64_t copied_bytes(const Receiver& receiver);

/// The row of the transports.
Transport shared_memory_transport();

}  // namespace sluice
