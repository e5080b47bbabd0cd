#include "transport/meeting.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sys/socket.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kResult = asio::as_tuple(asio::use_awaitable);
constexpr auto kPoll = std::chrono::milliseconds(50);

}  // namespace

/// What the coroutines share with the waiting thread; they hold it.
class Meeting::Hall {
 public:
  using Self = std::shared_ptr<Hall>;
  using Closers = std::list<std::function<void()>>;

  // The coroutines. They catch everything.
  static asio::awaitable<void> accept_all(Self self, Acceptor acceptor);
  static asio::awaitable<void> welcome(Self self, Socket socket);
  static asio::awaitable<void> call(Self self, Transport transport,
                                    std::string address, Hello mine);
  static asio::awaitable<void> greet(Self self, Socket socket, Hello mine);
  void close();

  // For the waiting thread.
  Guest wait_for(std::uint32_t block, Clock::time_point until,
                 const std::function<void()>& check);

 private:
  // Lets close() reach what a coroutine waits on.
  class Closable {
   public:
    Closable(Hall& hall, std::function<void()> close)
        : closers_(hall.closers_),
          place_(closers_.insert(closers_.end(), std::move(close))) {
      if (hall.closed_) (*place_)();
    }
    ~Closable() { closers_.erase(place_); }
    Closable(const Closable&) = delete;
    Closable& operator=(const Closable&) = delete;

   private:
    Closers& closers_;
    Closers::iterator place_;
  };
  template <class Handle>
  Closable closable(Handle& handle) {
    return Closable(*this, [&handle] {
      boost::system::error_code ignored;
      handle.close(ignored);
    });
  }

  void arrived(Hello hello, Socket socket);
  void failed(const std::string& reason);
  void refused(const std::string& reason);
  std::string why_late(std::uint32_t block) const;

  // The I/O thread's own.
  Closers closers_;
  bool closed_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  // All below: under the mutex.
  std::vector<Guest> guests_;
  std::string failure_;  // of a call
  std::string refusal_;  // of the last stranger that was sent away
};

asio::awaitable<void> Meeting::Hall::accept_all(Self self, Acceptor acceptor) {
  const Closable closable = self->closable(acceptor);
  while (acceptor.is_open()) {
    const auto [error] =
        co_await acceptor.async_wait(Acceptor::wait_read, kResult);
    if (error) break;
    // Asio's own accept makes sockets that a child inherits.
    const int socket = ::accept4(acceptor.native_handle(), nullptr, nullptr,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) continue;
      self->failed("no more connections can be accepted: " +
                   std::generic_category().message(errno));
      break;
    }
    asio::co_spawn(
        acceptor.get_executor(),
        welcome(self, Socket(acceptor.get_executor(),
                             acceptor.local_endpoint().protocol(), socket)),
        asio::detached);
  }
}

// A stranger's mistakes are its own: they must not end the run.
asio::awaitable<void> Meeting::Hall::welcome(Self self, Socket socket) {
  try {
    const Closable closable = self->closable(socket);
    Hello hello = co_await read_hello(socket);
    self->arrived(std::move(hello), std::move(socket));
  } catch (const std::exception& error) {
    self->refused(error.what());
  }
}

asio::awaitable<void> Meeting::Hall::call(Self self, Transport transport,
                                          std::string address, Hello mine) {
  try {
    Socket socket = co_await transport.connect(std::move(address));
    co_await greet(self, std::move(socket), std::move(mine));
  } catch (const std::exception& error) {
    self->failed(error.what());
  }
}

asio::awaitable<void> Meeting::Hall::greet(Self self, Socket socket,
                                           Hello mine) {
  try {
    const Closable closable = self->closable(socket);
    co_await write_hello(socket, mine);
    Hello theirs = co_await read_hello(socket);
    check_agreement(mine, theirs);
    self->arrived(std::move(theirs), std::move(socket));
  } catch (const std::exception& error) {
    self->failed(fmt::format("{} greeted {}: {}", block_name(mine.from),
                             block_name(mine.to), error.what()));
  }
}

void Meeting::Hall::close() {
  closed_ = true;
  for (const std::function<void()>& close : closers_) close();
}

void Meeting::Hall::arrived(Hello hello, Socket socket) {
  const std::lock_guard lock(mutex_);
  guests_.push_back({std::move(hello), std::move(socket)});
  changed_.notify_all();
}

void Meeting::Hall::failed(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  failure_ = reason;
  changed_.notify_all();
}

void Meeting::Hall::refused(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  refusal_ = reason;
}

std::string Meeting::Hall::why_late(std::uint32_t block) const {
  std::string text = block_name(block) + " did not come in time";
  if (!refusal_.empty()) {
    text += " (a connection was refused: " + refusal_ + ")";
  }
  return text;
}

Guest Meeting::Hall::wait_for(std::uint32_t block, Clock::time_point until,
                              const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto guest = std::find_if(
        guests_.begin(), guests_.end(),
        [&](const Guest& each) { return each.hello.from == block; });
    if (guest != guests_.end()) {
      Guest found = std::move(*guest);
      guests_.erase(guest);
      return found;
    }
    if (!failure_.empty()) throw LinkError("{}", failure_);
    if (Clock::now() >= until) throw LinkError("{}", why_late(block));
    changed_.wait_until(lock, std::min(until, Clock::now() + kPoll));
    if (check) {
      lock.unlock();
      check();
      lock.lock();
    }
  }
}

Meeting::Meeting(IoThread& io, const Transport& transport)
    : io_(io), transport_(transport), hall_(std::make_shared<Hall>()) {}

Meeting::~Meeting() {
  asio::post(io_.context(), [hall = hall_] { hall->close(); });
}

std::string Meeting::listen(const std::string& folder,
                            const std::string& name) {
  Listener listener = transport_.listen(io_.context(), folder, name);
  listener.acceptor.native_non_blocking(true);
  asio::co_spawn(io_.context(),
                 Hall::accept_all(hall_, std::move(listener.acceptor)),
                 asio::detached);
  return listener.address;
}

void Meeting::call(std::string address, Hello mine) {
  asio::co_spawn(
      io_.context(),
      Hall::call(hall_, transport_, std::move(address), std::move(mine)),
      asio::detached);
}

void Meeting::greet(Socket socket, Hello mine) {
  asio::co_spawn(io_.context(),
                 Hall::greet(hall_, std::move(socket), std::move(mine)),
                 asio::detached);
}

Guest Meeting::wait_for(std::uint32_t block, Clock::time_point until,
                        const std::function<void()>& check) {
  return hall_->wait_for(block, until, check);
}

}  // namespace sluice
