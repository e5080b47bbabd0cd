#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/base/messages/channel.h"
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

/// Buffers of the first `count` slots; one without data where slots_of() gives
/// ordinary memory.
BufferSource free_slots_of(const Sender& sender, std::size_t count);

/// Has the driver of a device know that memory, for as long as the answer
/// lives: "" in `why`, or why it doesn't.
using PinMemory = std::function<std::shared_ptr<void>(
    std::span<std::byte> memory, std::string& why)>;

/// Takes the memory of the first `count` slots in which this end sends, or
/// receives, and has `pin` know it for as long as this process has it mapped.
/// Before they are used; of a receiver after something has come. Takes
/// milliseconds. "", or why not.
std::string pin_slots(const Sender& sender, std::size_t count,
                      const PinMemory& pin);
std::string pin_slots(const Receiver& receiver, std::size_t count,
                      const PinMemory& pin);

/// All slots in which this end receives; none before something has come.
std::span<const std::byte> memory_of_slots(const Receiver& receiver);

/// Around such a receiver: tensors that lie in `slots` are copied to memory of
/// `buffers`, and the slots given back.
std::unique_ptr<Receiver> out_of_slots(std::unique_ptr<Receiver> receiver,
                                       std::span<const std::byte> slots,
                                       BufferSource buffers);

/// Bytes of payload that this end of a link over shared memory has copied: none
/// of what went in slots. 0 for ends of other kinds.
std::uint64_t copied_bytes(const Sender& sender);
std::uint64_t copied_bytes(const Receiver& receiver);

/// The row of the transports.
Transport shared_memory_transport();

}  // namespace sluice
