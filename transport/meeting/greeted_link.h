#pragma once

#include <cstdint>
#include <string>

#include "lib/base/messages/channel.h"
#include "transport/links/accepted_peer.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/meeting.h"
#include "transport/meeting/rendezvous.h"

// Links over connections whose ends have proved themselves, as the options of a
// rendezvous want them. `mine` is what this end says, or has said.
namespace sluice {

/// Reconnect window announced in the hello, in ms.
std::uint64_t reconnect_ms(const RendezvousOptions& options);

/// The link of a side that called `address`: its hello was written already.
Link caller_link(IoThread& io, Meeting& meeting, const std::string& address,
                 AcceptedPeer accepted, const Hello& mine,
                 const RendezvousOptions& options);

/// The link of a side that was called: its answer is still to be written.
/// Throws LinkError and Disagreement as check_agreement() does.
Link called_link(IoThread& io, Meeting& meeting, AcceptedPeer accepted,
                 const Hello& mine, const RendezvousOptions& options);

}  // namespace sluice
