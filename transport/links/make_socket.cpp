#include "transport/links/make_socket.h"

#include <cerrno>
#include <system_error>

#include <sys/socket.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"

namespace sluice {

int make_socket(int family, int type) {
  const int socket = ::socket(family, type | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    throw LinkError("no socket could be made: {}", errno_text());
  }
  return socket;
}

}  // namespace sluice
