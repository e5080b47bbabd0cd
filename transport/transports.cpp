#include "transport/transports.h"

#include <array>

namespace sluice {

std::span<const TransportRow> transports() {
  static const std::array rows{
      TransportRow{"unix", "UNIX-domain sockets between processes of one host",
                   unix_transport()},
  };
  return rows;
}

const Transport& transport_of(std::string_view name) {
  return find_row(transports(), name, "transport").make;
}

}  // namespace sluice
