#pragma once

namespace sluice {

/// A new socket that no child inherits, as Asio's own would be. `family` is
/// AF_UNIX, AF_INET ...; `type` SOCK_STREAM or SOCK_DGRAM. Throws LinkError.
int make_socket(int family, int type);

}  // namespace sluice
