#pragma once

#include <memory>
#include <string>

#include "transport/links/hello.h"
#include "transport/links/reconnector.h"

namespace sluice {

class PeerAcceptor;

/// Connections returned by Meeting; each keeps the acceptor alive.
std::shared_ptr<Reconnector> make_calling_reconnector(
    std::shared_ptr<PeerAcceptor> peers, std::string address, Hello mine);
std::shared_ptr<Reconnector> make_waiting_reconnector(
    std::shared_ptr<PeerAcceptor> peers, Hello mine);

}  // namespace sluice
