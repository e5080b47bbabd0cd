#include "tests/transport/fault_proxy.h"

#include <algorithm>
#include <array>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <sys/socket.h>

namespace sluice {
namespace {

namespace asio = boost::asio;
constexpr auto kResult = asio::as_tuple(asio::use_awaitable);

}  // namespace

// What the coroutines share. All on the proxy's thread but for the counts.
class FaultProxy::Room {
 public:
  using Self = std::shared_ptr<Room>;

  Room(Transport transport, std::string target, Plan plan)
      : transport_(transport),
        target_(std::move(target)),
        plan_(std::move(plan)) {}

  static asio::awaitable<void> accept_all(Self self);
  static asio::awaitable<void> serve(Self self, Socket caller, int number);
  void cut();
  void close();
  int connections() const {
    const std::lock_guard lock(mutex_);
    return connections_;
  }
  std::string passed() const {
    const std::lock_guard lock(mutex_);
    return passed_;
  }

  std::optional<Acceptor> acceptor;

 private:
  // The two sockets of a connection.
  struct Pair {
    Socket caller;
    Socket called;

    void end(bool reset) {
      for (Socket* socket : {&caller, &called}) {
        boost::system::error_code ignored;
        if (reset) {
          socket->set_option(asio::socket_base::linger(true, 0), ignored);
        }
        socket->close(ignored);
      }
    }
  };
  using SharedPair = std::shared_ptr<Pair>;

  static asio::awaitable<void> pass(Self self, SharedPair pair, bool up,
                                    Fault fault,
                                    std::chrono::milliseconds delay);
  void record(const char* bytes, std::size_t count) {
    const std::lock_guard lock(mutex_);
    passed_.append(bytes, count);
  }

  const Transport transport_;
  const std::string target_;
  const Plan plan_;
  std::list<std::weak_ptr<Pair>> pairs_;
  mutable std::mutex mutex_;
  int connections_ = 0;  // under the mutex, as the next
  std::string passed_;
};

asio::awaitable<void> FaultProxy::Room::accept_all(Self self) {
  for (;;) {
    auto [error, socket] = co_await self->acceptor->async_accept(kResult);
    if (error) co_return;
    int number = 0;
    {
      const std::lock_guard lock(self->mutex_);
      number = self->connections_++;
    }
    asio::co_spawn(self->acceptor->get_executor(),
                   serve(self, std::move(socket), number), asio::detached);
  }
}

asio::awaitable<void> FaultProxy::Room::serve(Self self, Socket caller,
                                              int number) {
  std::optional<Socket> called;
  try {
    called = co_await self->transport_.connect(self->target_);
  } catch (const std::exception&) {
    co_return;  // without a listener the caller sees the end
  }
  const Faults faults = self->plan_ ? self->plan_(number) : Faults{};
  const auto pair =
      std::make_shared<Pair>(Pair{std::move(caller), std::move(*called)});
  self->pairs_.push_back(pair);
  const auto executor = pair->caller.get_executor();
  asio::co_spawn(executor, pass(self, pair, true, faults.up, faults.delay),
                 asio::detached);
  asio::co_spawn(executor, pass(self, pair, false, faults.down, faults.delay),
                 asio::detached);
}

asio::awaitable<void> FaultProxy::Room::pass(Self self, SharedPair pair,
                                             bool up, Fault fault,
                                             std::chrono::milliseconds delay) {
  Socket& from = up ? pair->caller : pair->called;
  Socket& to = up ? pair->called : pair->caller;
  std::vector<char> bytes(std::size_t{64} << 10);
  asio::steady_timer timer(from.get_executor());
  std::uint64_t position = 0;
  for (;;) {
    auto [error, count] =
        co_await from.async_read_some(asio::buffer(bytes), kResult);
    if (error) break;
    if (delay.count() > 0) {
      timer.expires_after(delay);
      co_await timer.async_wait(kResult);
    }
    const bool now = fault.kind != Fault::Kind::none &&
                     fault.after >= position && fault.after < position + count;
    const std::size_t before = fault.after - position;
    if (now && fault.kind == Fault::Kind::flip) {
      bytes[before] = static_cast<char>(bytes[before] ^ 1);
    } else if (now) {
      count = before;
    }
    self->record(bytes.data(), count);
    const auto [failure, written] = co_await asio::async_write(
        to, asio::buffer(bytes.data(), count), kResult);
    if (failure) break;
    position += count;
    if (now && fault.kind == Fault::Kind::stall) co_return;
    if (now && fault.kind != Fault::Kind::flip) {
      pair->end(fault.kind == Fault::Kind::reset);
      co_return;
    }
  }
  boost::system::error_code ignored;
  to.shutdown(Socket::shutdown_send, ignored);
}

void FaultProxy::Room::cut() {
  for (const auto& each : pairs_) {
    if (const SharedPair pair = each.lock()) pair->end(false);
  }
}

void FaultProxy::Room::close() {
  boost::system::error_code ignored;
  acceptor->close(ignored);
  cut();
}

FaultProxy::FaultProxy(const std::string& transport, const Place& place,
                       std::string target, Plan plan)
    : room_(std::make_shared<Room>(transport_of(transport), std::move(target),
                                   std::move(plan))) {
  Listener listener = transport_of(transport).listen(io_.context(), place);
  address_ = listener.address;
  room_->acceptor.emplace(std::move(listener.acceptor));
  asio::co_spawn(io_.context(), Room::accept_all(room_), asio::detached);
}

FaultProxy::~FaultProxy() {
  asio::post(io_.context(), [room = room_] { room->close(); });
}

int FaultProxy::connections() const {
  return room_->connections();
}

void FaultProxy::cut() {
  asio::post(io_.context(), [room = room_] { room->cut(); });
}

std::string FaultProxy::passed() const {
  return room_->passed();
}

}  // namespace sluice
