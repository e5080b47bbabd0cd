#include "transport/meeting/greeted_link.h"

#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "transport/links/reconnector.h"
#include "transport/meeting/transports.h"
#include "transport/wire/link_options.h"

namespace sluice {
namespace {

LinkOptions link_options(const Hello& mine, const RendezvousOptions& options,
                         std::shared_ptr<Reconnector> reconnector) {
  LinkOptions link = {.here = options.name(mine.from),
                      .there = options.name(mine.to),
                      .capacity_send = mine.capacity_send,
                      .capacity_receive = mine.capacity_receive,
                      .deadline = options.deadline,
                      .checksum = transport_of(options.transport).checksum,
                      .reconnect = options.reconnect,
                      .reconnector = std::move(reconnector),
                      .limits = options.limits,
                      .buffers = options.buffers,
                      .shared_memory = options.shared_memory};
  if (options.reconnected) {
    link.reconnected = [to = mine.to, reconnected = options.reconnected](
                           std::chrono::milliseconds without) {
      reconnected(to, without);
    };
  }
  if (options.damage) {
    link.damage = [to = mine.to, damage = options.damage](
                      const Message& message, std::span<std::byte> frame) {
      damage(to, message, frame);
    };
  }
  return link;
}

Hello in_session(Hello mine, const AcceptedPeer& accepted) {
  mine.session = accepted.session;
  mine.run.clear();  // it has been judged
  return mine;
}

}  // namespace

std::uint64_t reconnect_ms(const RendezvousOptions& options) {
  return static_cast<std::uint64_t>(options.reconnect.count());
}

Link caller_link(IoThread& io, Meeting& meeting, const std::string& address,
                 AcceptedPeer accepted, const Hello& mine,
                 const RendezvousOptions& options) {
  std::shared_ptr<Reconnector> reconnector;
  if (options.reconnect.count() > 0) {
    reconnector =
        meeting.reconnector_of_caller(address, in_session(mine, accepted));
  }
  return transport_of(options.transport)
      .open(io, std::move(accepted.stream),
            link_options(mine, options, std::move(reconnector)), {});
}

Link called_link(IoThread& io, Meeting& meeting, AcceptedPeer accepted,
                 const Hello& mine, const RendezvousOptions& options) {
  check_agreement(mine, accepted.hello);
  std::shared_ptr<Reconnector> reconnector;
  if (options.reconnect.count() > 0) {
    reconnector = meeting.reconnector_of_called(in_session(mine, accepted));
  }
  return transport_of(options.transport)
      .open(io, std::move(accepted.stream),
            link_options(mine, options, std::move(reconnector)),
            encode_hello(mine));
}

}  // namespace sluice
