#include "transport/meeting/meeting.h"

#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include "transport/meeting/peer_acceptor.h"
#include "transport/meeting/reconnectors.h"

namespace sluice {

namespace asio = boost::asio;

Meeting::Meeting(IoThread& io, const Transport& transport,
                 MeetingOptions options)
    : io_(io),
      transport_(transport),
      peers_(std::make_shared<PeerAcceptor>(io.context().get_executor(),
                                            transport, std::move(options))),
      // Reconnectors hold it too, so that the called side goes on listening for
      // them.
      open_(peers_.get(), [peers = peers_](PeerAcceptor*) {
        asio::post(peers->executor(), [peers] { peers->close(); });
      }) {}

Meeting::~Meeting() = default;

std::string Meeting::listen(const Place& place) {
  Listener listener = transport_.listen(io_.context(), place);
  listener.acceptor.native_non_blocking(true);
  asio::co_spawn(io_.context(),
                 PeerAcceptor::accept_all(peers_, std::move(listener.acceptor)),
                 asio::detached);
  return listener.address;
}

void Meeting::call(std::string address, Hello mine) {
  asio::co_spawn(
      io_.context(),
      PeerAcceptor::call(peers_, std::move(address), std::move(mine)),
      asio::detached);
}

void Meeting::greet(Stream stream, Hello mine) {
  asio::co_spawn(
      io_.context(),
      PeerAcceptor::greet(peers_, std::move(stream), std::move(mine)),
      asio::detached);
}

void Meeting::refuse_all(std::string reason) {
  asio::co_spawn(io_.context(),
                 PeerAcceptor::refuse_all(peers_, std::move(reason)),
                 asio::detached);
}

std::shared_ptr<Reconnector> Meeting::reconnector_of_caller(std::string address,
                                                            Hello mine) {
  return make_calling_reconnector(open_, std::move(address), std::move(mine));
}

std::shared_ptr<Reconnector> Meeting::reconnector_of_called(Hello mine) {
  return make_waiting_reconnector(open_, std::move(mine));
}

bool Meeting::has_met(std::uint32_t block) const {
  return peers_->has_met(block);
}

Refusals Meeting::refusals() const {
  return peers_->refusals();
}

void Meeting::wait_to_meet(std::uint32_t block,
                           std::chrono::steady_clock::time_point until,
                           const std::function<void()>& check) {
  peers_->wait_to_meet(block, until, check);
}

AcceptedPeer Meeting::wait_for(std::uint32_t block,
                               std::chrono::steady_clock::time_point until,
                               const std::function<void()>& check) {
  return peers_->wait_for(block, until, check);
}

}  // namespace sluice
