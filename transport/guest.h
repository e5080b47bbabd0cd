#pragma once

#include "transport/handshake.h"
#include "transport/hello.h"
#include "transport/stream.h"

namespace sluice {

/// A connection whose peer has proved that it belongs to the run, and has said
/// who it is.
struct Guest {
  Hello hello;
  Stream stream;
  Session session = {};  ///< of a link that begins with this connection
};

}  // namespace sluice
