#include "tests/benchmarks/transport_lanes.h"

#include <array>
#include <cstring>
#include <map>
#include <utility>

#include <sys/socket.h>

#include "lib/base/error.h"
#include "lib/base/messages/message.h"
#include "tests/transport/test_secret.h"
#include "transport/links/file_descriptor.h"
#include "transport/meeting/rendezvous.h"
#include "transport/meeting/transports.h"
#include "transport/shared/shared_memory.h"

namespace sluice {
namespace {

constexpr std::size_t kLargest = std::size_t{16} << 20;

// Four buffers in turn: an allocator that caches hands out what was freed last.
class Buffers {
 public:
  Buffer next(std::size_t bytes) {
    std::vector<Buffer>& all = all_[bytes];
    if (all.empty()) fill(all, bytes);
    return all[turn_++ % all.size()];
  }

 private:
  static void fill(std::vector<Buffer>& all, std::size_t bytes) {
    for (int i = 0; i < 4; ++i) {
      all.push_back(allocate_buffer(bytes));
      std::memset(all.back().data, 1, bytes);
    }
  }

  std::map<std::size_t, std::vector<Buffer>> all_;
  std::size_t turn_ = 0;
};

class MemcpyLane final : public Lane {
 public:
  void send(std::size_t bytes) override {
    std::memcpy(to_.next(bytes).data, from_.next(bytes).data, bytes);
  }
  void receive(std::size_t) override {}

 private:
  Buffers from_;
  Buffers to_;
};

class SocketLane final : public Lane {
 public:
  explicit SocketLane(int socket) : socket_(socket) {}

  void send(std::size_t bytes) override {
    std::array<iovec, 2> parts{
        iovec{.iov_base = header_.data(), .iov_len = header_.size()},
        iovec{.iov_base = from_.next(bytes).data, .iov_len = bytes}};
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    while (message.msg_iovlen > 0) {
      const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
      if (sent < 0) throw UserError("a plain socket failed in sendmsg()");
      advance(message, static_cast<std::size_t>(sent));
    }
  }
  void receive(std::size_t bytes) override {
    read(header_.data(), header_.size());
    read(to_.next(bytes).data, bytes);
  }

 private:
  static void advance(msghdr& message, std::size_t sent) {
    while (message.msg_iovlen > 0 && sent >= message.msg_iov->iov_len) {
      sent -= message.msg_iov->iov_len;
      ++message.msg_iov;
      --message.msg_iovlen;
    }
    if (message.msg_iovlen == 0) return;
    message.msg_iov->iov_base =
        static_cast<std::byte*>(message.msg_iov->iov_base) + sent;
    message.msg_iov->iov_len -= sent;
  }
  void read(std::byte* to, std::size_t bytes) {
    while (bytes > 0) {
      const ssize_t got = ::recv(socket_.get(), to, bytes, MSG_WAITALL);
      if (got <= 0) throw UserError("a plain socket failed in recv()");
      to += got;
      bytes -= static_cast<std::size_t>(got);
    }
  }

  FileDescriptor socket_;
  std::array<std::byte, 64> header_ = {};
  Buffers from_;
  Buffers to_;
};

class LinkLane final : public Lane {
 public:
  LinkLane(Link link, bool in_slots) : link_(std::move(link)) {
    if (in_slots) slots_ = slots_of(*link_.sender);
  }

  void send(std::size_t bytes) override {
    Message message;
    message.tensors.push_back(
        {.name = "h",
         .dtype = DType::uint8,
         .sizes = {static_cast<std::int64_t>(bytes)},
         .strides = {1},
         .buffer = slots_ ? slots_(bytes) : from_.next(bytes)});
    link_.sender->send(std::move(message));
  }
  void receive(std::size_t bytes) override {
    const auto message = link_.receiver->receive();
    SLUICE_CHECK(message && payload_bytes(*message) == bytes,
                 "another message came than was sent");
  }

 private:
  Link link_;
  BufferSource slots_;
  Buffers from_;
};

bool is_slots(std::size_t place) {
  return place == transports().size();
}

std::string name_of(std::size_t place) {
  return is_slots(place) ? "slots" : std::string(transports()[place].name);
}

RendezvousOptions options_of(std::size_t place) {
  // Held by what asks for buffers, one call at a time.
  const auto to = std::make_shared<Buffers>();
  RendezvousOptions options{
      .secret = test_secret(),
      .control = {.up = kLaneCapacity, .down = kLaneCapacity},
      .transport = is_slots(place) ? "shared_memory" : name_of(place),
      .buffers = [to](std::size_t bytes) { return to->next(bytes); }};
  if (is_slots(place)) {
    options.shared_memory.slots = kLaneCapacity + 2;
    options.shared_memory.slot_bytes = kLargest;
  }
  return options;
}

NamedLane lane_of(std::size_t place, Link link) {
  return {name_of(place),
          std::make_unique<LinkLane>(std::move(link), is_slots(place))};
}

}  // namespace

std::unique_ptr<Lane> memcpy_lane() {
  return std::make_unique<MemcpyLane>();
}

std::unique_ptr<Lane> socket_lane(int socket) {
  return std::make_unique<SocketLane>(socket);
}

class LinkInvitation::Place {
 public:
  Place(IoThread& io, std::size_t place) : meeting(io, options_of(place)) {}
  Rendezvous meeting;
};

LinkInvitation::LinkInvitation(IoThread& io) {
  for (std::size_t i = 0; i <= transports().size(); ++i) {
    places_.push_back(std::make_unique<Place>(io, i));
  }
}

LinkInvitation::~LinkInvitation() = default;

std::vector<std::string> LinkInvitation::addresses() const {
  std::vector<std::string> all;
  for (const auto& place : places_) all.push_back(place->meeting.address());
  return all;
}

std::vector<NamedLane> LinkInvitation::accept() {
  std::vector<NamedLane> lanes;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    std::vector<Link> links = places_[i]->meeting.accept_workers();
    lanes.push_back(lane_of(i, std::move(links.front())));
  }
  return lanes;
}

std::vector<NamedLane> join_links(IoThread& io,
                                  const std::vector<std::string>& addresses) {
  std::vector<NamedLane> lanes;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    JoinedLinks links = join(io, addresses[i], 1, {}, options_of(i));
    lanes.push_back(lane_of(i, std::move(links.control)));
  }
  return lanes;
}

}  // namespace sluice
