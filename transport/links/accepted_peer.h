#pragma once

#include "transport/links/hello.h"
#include "transport/links/stream.h"
#include "transport/wire/handshake.h"

namespace sluice {

/// A connection whose peer has proved that it belongs to the run, and has named
/// itself.
struct AcceptedPeer {
  Hello hello;
  Stream stream;
  Session session = {};  ///< of a link that begins with this connection
};

}  // namespace sluice
