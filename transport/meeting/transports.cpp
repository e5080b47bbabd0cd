#include "transport/meeting/transports.h"

#include <array>

#include "transport/shared/shared_memory.h"

namespace sluice {

std::span<const TransportRow> transports() {
  static const std::array rows{
      TransportRow{"unix", "UNIX-domain sockets between processes of one host",
                   unix_transport()},
      TransportRow{"shared_memory", "memory that processes of one host share",
                   shared_memory_transport()},
      TransportRow{"tcp", "TCP between processes of one host (loopback)",
                   tcp_transport()},
      TransportRow{"tls",
                   "TCP between hosts, encrypted: TLS 1.3 with the run's "
                   "secret as its key",
                   tls_transport()},
  };
  return rows;
}

const Transport& transport_of(std::string_view name) {
  return find_row(transports(), name, "transport").make;
}

}  // namespace sluice
