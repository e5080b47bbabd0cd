#pragma once

#include <cstdint>

#include <boost/asio/awaitable.hpp>

#include "lib/base/error.h"
#include "transport/links/stream.h"
#include "transport/wire/frame.h"
#include "transport/wire/handshake.h"

namespace sluice {

/// The peer belongs to the run, but is of a build that we can't talk to.
class VersionError final : public LinkError {
 public:
  using LinkError::LinkError;
};

/// The name and secret that we show to the peer.
struct Identity {
  Secret secret = {};
  std::uint32_t from = 0;  ///< block, or 0 for the launcher
  std::uint32_t to = 0;    ///< of no meaning for the called side
  Versions versions = {kWireVersion, kWireVersion};
};

/// Runs the handshake on a new connection; returns its end, which is agreed.
/// On the I/O thread. Throws LinkError: VersionError, or why the peer is a
/// stranger. The stream must outlive it.
boost::asio::awaitable<Handshake> authenticate(Stream& stream, Side side,
                                               Identity mine);

}  // namespace sluice
