#include "transport/meeting/peer_acceptor.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <sys/socket.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/messages/peer_missing.h"
#include "transport/wire/completion.h"
#include "transport/wire/timeout.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using Clock = PeerAcceptor::Clock;

constexpr auto kPoll = std::chrono::milliseconds(50);

// Connections that may be unproved at a time; others wait in the kernel's queue
// until one of these is through or was sent away.
constexpr int kMostUnproved = 64;

asio::awaitable<void> connect_into(Transport transport, std::string address,
                                   std::optional<Socket>& socket) {
  socket.emplace(co_await transport.connect(std::move(address)));
}

}  // namespace

PeerAcceptor::PeerAcceptor(const asio::any_io_executor& executor,
                           const Transport& transport, MeetingOptions options)
    : executor_(executor),
      transport_(transport),
      options_(std::move(options)),
      room_(executor, Clock::time_point::max()) {
  SLUICE_CHECK(!options_.identity.secret.empty(),
               "a meeting needs the run's secret");
}

PeerAcceptor::CloseHook::CloseHook(PeerAcceptor& peers,
                                   std::function<void()> close)
    : closers_(peers.closers_),
      place_(closers_.insert(closers_.end(), std::move(close))) {
  if (peers.closed_) (*place_)();
}

asio::awaitable<void> PeerAcceptor::accept_all(Self self, Acceptor acceptor) {
  const CloseHook closable(*self, [&acceptor, &self] {
    boost::system::error_code ignored;
    acceptor.close(ignored);
    self->room_.cancel();
  });
  while (acceptor.is_open()) {
    co_await self->wait_for_room();
    const auto [error] =
        co_await acceptor.async_wait(Acceptor::wait_read, kResult);
    if (error) break;
    // Asio's own accept makes sockets that a child inherits.
    const int socket = ::accept4(acceptor.native_handle(), nullptr, nullptr,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) continue;
      self->failed("no more connections can be accepted: " + errno_text());
      break;
    }
    ++self->unproved_;
    asio::co_spawn(
        acceptor.get_executor(),
        welcome(self,
                Stream(Socket(acceptor.get_executor(),
                              acceptor.local_endpoint().protocol(), socket))),
        asio::detached);
  }
}

asio::awaitable<void> PeerAcceptor::wait_for_room() {
  while (unproved_ >= kMostUnproved && !closed_) {
    co_await room_.async_wait(kResult);
  }
}

// A process that isn't of the run must not be able to end it by what it sends.
asio::awaitable<void> PeerAcceptor::welcome(Self self, Stream stream) {
  bool late = false;
  AcceptedPeer accepted{.hello = {}, .stream = std::move(stream)};
  try {
    const CloseHook closable(*self, [&accepted] { accepted.stream.close(); });
    const Timeout timeout(self->executor_,
                          Clock::now() + self->options_.greeting_time,
                          [&late, &accepted] {
                            late = true;
                            accepted.stream.close();
                          });
    const Handshake handshake = co_await self->prove(
        accepted.stream, Side::called, self->options_.identity);
    accepted.session = handshake.session();
    accepted.hello = co_await read_hello(accepted.stream);
    check_identity(handshake.theirs(), accepted.hello);
    co_await self->receive(accepted);
  } catch (const VersionError& error) {
    self->disagreed(error.what());
  } catch (const PeerGoneError& error) {
    self->refused(late ? self->too_little() : error.what(), late);
  } catch (const std::exception& error) {
    self->refused(late ? self->too_little() : error.what(), true);
  }
  --self->unproved_;
  self->room_.cancel();
}

// Gives the peer to the link that it comes back to, or to the thread that waits
// for a new one. While anything is awaited the stream stays where close() finds
// it.
asio::awaitable<void> PeerAcceptor::receive(AcceptedPeer& accepted) {
  if (accepted.hello.session == Session{}) {
    const auto link = link_with(accepted.hello.from);
    std::string reason =
        link || !options_.judge ? "" : options_.judge(accepted.hello);
    if (!link && reason.empty() && !accepted.hello.run.empty())
      reason = disagreement();
    if (!reason.empty()) {
      co_await refuse(accepted, reason);
      co_return;
    }
    if (!link) {
      arrived(std::move(accepted));
      co_return;
    }
    const Session theirs = link->mine.session;
    link->restarted = true;
    link->came.cancel();
    co_await send_away(accepted, theirs);
    co_return;
  }
  const auto found = returns_.find(accepted.hello.session);
  const auto link = found == returns_.end() ? nullptr : found->second.lock();
  if (!link || link->stopped) {
    co_await send_away(accepted, Session{});
    co_return;
  }
  link->accepted.emplace(std::move(accepted));
  link->came.cancel();
  if (link->returned) link->returned();
}

// Refuses a peer, and lets it know why. Throws LinkError.
asio::awaitable<void> PeerAcceptor::send_away(AcceptedPeer& accepted,
                                              Session session) {
  const Hello answer{
      .from = accepted.hello.to, .to = accepted.hello.from, .session = session};
  co_await write_hello(accepted.stream, answer);
  throw LinkError("{} came with a link that is not known here",
                  block_name(accepted.hello.from));
}

// Tells it, and the ranks that are there already: none of them has a run now.
asio::awaitable<void> PeerAcceptor::refuse(AcceptedPeer& accepted,
                                           const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    met_.insert(accepted.hello.from);
    is_refusing_ = true;
  }
  co_await tell_all(reason);
  co_await tell(accepted, reason);
  disagreed(reason);
  co_await tell_all(reason);  // who came meanwhile
}

asio::awaitable<void> PeerAcceptor::refuse_all(Self self, std::string reason) {
  self->disagreed(reason);
  co_await self->tell_all(reason);
}

asio::awaitable<void> PeerAcceptor::tell_all(const std::string& reason) {
  std::vector<AcceptedPeer> told;
  {
    const std::lock_guard lock(mutex_);
    for (AcceptedPeer& each : accepted_)
      if (!each.hello.run.empty()) told.push_back(std::move(each));
    std::erase_if(accepted_, [](const AcceptedPeer& each) {
      return !each.hello.run.empty();
    });
  }
  for (AcceptedPeer& each : told) co_await tell(each, reason);
}

asio::awaitable<void> PeerAcceptor::tell(AcceptedPeer& accepted,
                                         const std::string& reason) {
  // A name of its own: g++ 12 destroys such a temporary twice.
  const Hello answer{
      .from = accepted.hello.to, .to = accepted.hello.from, .refusal = reason};
  try {
    co_await write_hello(accepted.stream, answer);
  } catch (const LinkError&) {
    // The peer is gone, and needs no reason any more.
  }
}

std::shared_ptr<AwaitedPeer> PeerAcceptor::link_with(std::uint32_t block) {
  for (const auto& [session, link] : returns_) {
    auto found = link.lock();
    if (found && !found->stopped && found->mine.to == block) return found;
  }
  return nullptr;
}

void PeerAcceptor::expect(const std::shared_ptr<AwaitedPeer>& link) {
  std::erase_if(returns_,
                [](const auto& each) { return each.second.expired(); });
  returns_[link->mine.session] = link;
}

asio::awaitable<Handshake> PeerAcceptor::prove(Stream& stream, Side side,
                                               Identity mine) {
  if (transport_.encrypted) co_await stream.encrypt(side, mine.secret);
  co_return co_await authenticate(stream, side, std::move(mine));
}

asio::awaitable<void> PeerAcceptor::call(Self self, std::string address,
                                         Hello mine) {
  try {
    self->arrived(co_await self->dial(std::move(address), mine,
                                      Clock::time_point::max()));
  } catch (const Disagreement& error) {
    self->disagreed(error.what());
  } catch (const VersionError& error) {
    self->disagreed(error.what());
  } catch (const std::exception& error) {
    self->failed(fmt::format("{} called {}: {}", self->options_.name(mine.from),
                             self->options_.name(mine.to), error.what()));
  }
}

// Asio cancels what is spawned, and so what a connect waits for.
asio::awaitable<Socket> PeerAcceptor::connect(std::string address,
                                              Clock::time_point until) {
  asio::cancellation_signal given_up;
  const auto give_up = [&given_up] {
    given_up.emit(asio::cancellation_type::terminal);
  };
  const CloseHook closable(*this, give_up);
  const Timeout timeout(executor_, until, give_up);
  std::optional<Socket> socket;
  const auto [error] = co_await asio::co_spawn(
      executor_, connect_into(transport_, std::move(address), socket),
      asio::bind_cancellation_slot(given_up.slot(), kResult));
  if (error) std::rethrow_exception(error);
  co_return std::move(*socket);
}

asio::awaitable<AcceptedPeer> PeerAcceptor::dial(std::string address,
                                                 Hello mine,
                                                 Clock::time_point until) {
  Stream stream(co_await connect(std::move(address), until));
  const CloseHook closable(*this, [&stream] { stream.close(); });
  const Timeout timeout(executor_, until, [&stream] { stream.close(); });
  Identity identity = options_.identity;
  identity.from = mine.from;
  identity.to = mine.to;
  const Handshake handshake =
      co_await prove(stream, Side::caller, std::move(identity));
  co_await write_hello(stream, mine);
  Hello theirs = co_await read_hello(stream);
  check_identity(handshake.theirs(), theirs);
  check_agreement(mine, theirs);
  co_return AcceptedPeer{.hello = std::move(theirs),
                         .stream = std::move(stream),
                         .session = handshake.session()};
}

asio::awaitable<void> PeerAcceptor::greet(Self self, Stream stream,
                                          Hello mine) {
  try {
    const CloseHook closable(*self, [&stream] { stream.close(); });
    co_await write_hello(stream, mine);
    Hello theirs = co_await read_hello(stream);
    check_agreement(mine, theirs);
    self->arrived({.hello = std::move(theirs), .stream = std::move(stream)});
  } catch (const std::exception& error) {
    self->failed(fmt::format("{} greeted {}: {}",
                             self->options_.name(mine.from),
                             self->options_.name(mine.to), error.what()));
  }
}

void PeerAcceptor::close() {
  closed_ = true;
  for (const std::function<void()>& close : closers_) close();
}

void PeerAcceptor::arrived(AcceptedPeer accepted) {
  const std::lock_guard lock(mutex_);
  met_.insert(accepted.hello.from);
  accepted_.push_back(std::move(accepted));
  changed_.notify_all();
}

void PeerAcceptor::failed(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (is_disagreement_) return;  // which is the reason of this one
  failure_ = reason;
  changed_.notify_all();
}

void PeerAcceptor::disagreed(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  is_refusing_ = false;
  if (is_disagreement_) return;  // report the first only
  failure_ = reason;
  is_disagreement_ = true;
  changed_.notify_all();
}

std::string PeerAcceptor::disagreement() const {
  const std::lock_guard lock(mutex_);
  return is_disagreement_ ? failure_ : "";
}

void PeerAcceptor::refused(const std::string& reason, bool is_told) {
  const std::lock_guard lock(mutex_);
  ++all_refusals_.count;
  all_refusals_.last = reason;
  if (!is_told) return;
  ++told_refusals_.count;
  told_refusals_.last = reason;
}

bool PeerAcceptor::has_met(std::uint32_t block) const {
  const std::lock_guard lock(mutex_);
  return met_.contains(block);
}

Refusals PeerAcceptor::refusals() const {
  const std::lock_guard lock(mutex_);
  return told_refusals_;
}

std::string PeerAcceptor::too_little() const {
  return fmt::format("it said too little within {} ms",
                     options_.greeting_time.count());
}

std::string PeerAcceptor::why_late(std::uint32_t block) const {
  std::string text = options_.name(block) + " did not come in time";
  const std::size_t count = all_refusals_.count;
  if (count > 0) {
    text += fmt::format(
        " ({} refused; the last one: {})",
        count == 1 ? "1 connection was"
                   : fmt::format("{} connections were", count),
        told_refusals_.count > 0 ? told_refusals_.last : all_refusals_.last);
  }
  return text;
}

// Waits until `is_there`, with the mutex, as wait_for() of a meeting does.
void PeerAcceptor::wait(std::unique_lock<std::mutex>& lock, std::uint32_t block,
                        Clock::time_point until,
                        const std::function<void()>& check,
                        const std::function<bool()>& is_there) {
  AwakeClock awake;
  const Clock::time_point end = awake.now() + (until - Clock::now());
  while (is_refusing_ || !is_there()) {
    if (is_disagreement_) throw Disagreement("{}", failure_);
    if (!failure_.empty()) throw LinkError("{}", failure_);
    const Clock::duration left = end - awake.now();
    if (left <= Clock::duration::zero())
      throw PeerMissingError(block, why_late(block));
    changed_.wait_for(lock, std::min<Clock::duration>(left, kPoll));
    if (check) {
      lock.unlock();
      check();
      lock.lock();
    }
  }
}

AcceptedPeer PeerAcceptor::wait_for(std::uint32_t block,
                                    Clock::time_point until,
                                    const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  auto accepted = accepted_.end();
  wait(lock, block, until, check, [&] {
    accepted = std::find_if(
        accepted_.begin(), accepted_.end(),
        [&](const AcceptedPeer& each) { return each.hello.from == block; });
    return accepted != accepted_.end();
  });
  AcceptedPeer found = std::move(*accepted);
  accepted_.erase(accepted);
  return found;
}

void PeerAcceptor::wait_to_meet(std::uint32_t block, Clock::time_point until,
                                const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  wait(lock, block, until, check,
       [&] { return !is_disagreement_ && met_.contains(block); });
}

}  // namespace sluice
