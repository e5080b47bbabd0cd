// The life of a connection: from its start over its breaks to its end.
#include "transport/links/connection_core.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include "lib/base/error.h"
#include "transport/links/accepted_peer.h"
#include "transport/links/reconnector.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = Mailbox::Clock;

// A connection on which so many heartbeats in a row didn't come, nor anything
// else, is taken for broken, where it can be replaced.
constexpr int kMissedBeats = 12;

// Time that an end looks before it sleeps, at first.
constexpr auto kSpin = std::chrono::microseconds(20);

constexpr auto kCreditsWait = std::chrono::microseconds(100);

}  // namespace

Connection::Connection(IoThread& io, Stream stream, LinkOptions options,
                       std::vector<std::byte> first)
    : io_(io),
      options_(std::move(options)),
      executor_(stream.executor()),
      mailbox_(options_, {.wake = [this] { wake(); },  // by ends, which hold it
                          .changed = [this] { io_.changed(); }}),
      send_spin_(kSpin),
      receive_spin_(kSpin),
      moved_([this] {
        missed_beats_ = 0;
        mailbox_.moved();
      }),
      stream_(std::move(stream)),
      wake_(executor_, Clock::time_point::max()),
      credits_(executor_),
      beat_(executor_),
      linger_(executor_),
      first_(std::move(first)) {}

void Connection::start(const std::shared_ptr<Connection>& self) {
  // Posted, since the stream and the reconnector belong to the I/O thread.
  asio::post(self->executor_, [self] {
    if (self->options_.reconnector) {
      self->options_.reconnector->expect([weak = std::weak_ptr(self)] {
        if (const auto link = weak.lock()) link->stream_.close();
      });
    }
    self->beat();
    exchange(self);
  });
}

void Connection::send(Message message) {
  OutgoingFrames frame = mailbox_.prepare(std::move(message));
  IoThread::LoopGuard guard(io_);
  if (!await(guard, send_spin_, &Mailbox::can_send)) mailbox_.give_up_sending();
  mailbox_.send(std::move(frame));
  write_soon(guard);
}

std::optional<Message> Connection::receive() {
  IoThread::LoopGuard guard(io_);
  if (!await(guard, receive_spin_, &Mailbox::ready))
    mailbox_.give_up_receiving();
  std::optional<Message> message = mailbox_.receive();
  write_soon(guard);  // the credit
  return message;
}

// Waits; false when nothing moved for as long as the deadline.
bool Connection::await(IoThread::LoopGuard& guard, Spin& spin,
                       bool (Mailbox::*done)() const) {
  const Clock::time_point start = mailbox_.awake_now();
  return guard.await(
      spin, [&] { return (mailbox_.*done)(); },
      [&] { return mailbox_.time_left(start); });
}

void Connection::write_soon(IoThread::LoopGuard& guard) {
  io_.note_progress();
  if (!guard.enter()) return wake();  // the thread that runs the loop
  if (!write_at_once()) guard.advance();
}

void Connection::wake() {
  asio::post(executor_, [self = shared_from_this()] { self->on_wake(); });
}

void Connection::ring(std::shared_ptr<Bell> bell) {
  mailbox_.ring(std::move(bell));
  io_.stay();
}

void Connection::exchange(const std::shared_ptr<Connection>& self) {
  self->running_ = 2;
  self->silent_ = false;
  self->missed_beats_ = 0;
  asio::co_spawn(self->executor_, read_all(self), asio::detached);
  asio::co_spawn(self->executor_, write_all(self), asio::detached);
}

// Notes that reading or writing has ended.
void Connection::ended(const std::shared_ptr<Connection>& self) {
  if (--self->running_ > 0) return;
  if (!self->reconnects()) return self->finish();
  asio::co_spawn(self->executor_, reconnect(self), asio::detached);
}

bool Connection::reconnects() const {
  return options_.reconnector != nullptr && !given_up_ && !mailbox_.over() &&
         mailbox_.reading();
}

asio::awaitable<void> Connection::reconnect(std::shared_ptr<Connection> self) {
  try {
    co_await self->meet_again();
  } catch (const std::exception& error) {
    self->end_.reason +=
        fmt::format("; no new connection was made within {} ms: {}",
                    self->options_.reconnect.count(), error.what());
    self->finish();
    co_return;
  }
  exchange(self);
}

asio::awaitable<void> Connection::meet_again() {
  if (!trouble_) trouble_ = Clock::now();
  const ResumePoint here = mailbox_.resume_point();
  AcceptedPeer accepted = co_await options_.reconnector->meet(
      here.received, here.taken, *trouble_, *trouble_ + options_.reconnect);
  if (given_up_) throw LinkError("it was given up");
  mailbox_.resume(
      {.received = accepted.hello.received, .taken = accepted.hello.taken});
  stream_ = std::move(accepted.stream);
  if (options_.reconnected)
    options_.reconnected(std::chrono::duration_cast<std::chrono::milliseconds>(
        Clock::now() - *trouble_));
}

void Connection::finish() {
  finished_ = true;
  begin({});  // what could not be written is released
  mailbox_.reading_ended(end_);
  give_up();
  credits_.cancel();
  beat_.cancel();
  linger_.cancel();
}

// No end waits any more, or there is nothing to wait for.
void Connection::give_up() {
  given_up_ = true;
  stream_.close();
  if (options_.reconnector) options_.reconnector->stop();
}

void Connection::on_wake() {
  wake_.cancel();
  if (finished_) return;
  if (!mailbox_.reading()) return give_up();
  if (mailbox_.abandoned() && !std::exchange(lingering_, true))
    linger(std::min(options_.deadline, kLinger));
}

// A few credits wait for more of them, or for a message that takes them along,
// but not for long: the peer may need the last of them.
void Connection::credit_later() {
  if (std::exchange(credits_come_, true)) return;
  credits_.expires_after(kCreditsWait);
  credits_.async_wait([self = shared_from_this()](error_code error) {
    self->credits_come_ = false;
    if (error) return;
    self->credits_are_due_ = true;
    self->wake_.cancel();
  });
}

// Has the writer tell the peer, now and then, that this process lives.
void Connection::beat() {
  if (finished_) return;
  if (options_.reconnector && ++missed_beats_ > kMissedBeats) {
    silent_ = true;
    stream_.close();
  }
  beat_.expires_after(options_.heartbeat);
  beat_.async_wait([self = shared_from_this()](error_code error) {
    if (error) return;
    self->stream_.tidy();
    self->mailbox_.beat(self->io_.progress());
    self->wake_.cancel();
    self->beat();
  });
}

// Closes the socket once nothing has moved for so long, in steps: while this
// process is suspended, no more than one of them passes.
void Connection::linger(Clock::duration left) {
  const Clock::time_point moved = mailbox_.last_move();
  const Clock::duration step = std::min<Clock::duration>(left, kAwakeLook);
  linger_.expires_after(step);
  linger_.async_wait(
      [self = shared_from_this(), moved, left = left - step](error_code error) {
        if (error) return;
        if (moved != self->mailbox_.last_move()) {
          self->linger(std::min(self->options_.deadline, kLinger));
        } else if (left > Clock::duration::zero()) {
          self->linger(left);
        } else {
          self->give_up();
        }
      });
}

}  // namespace sluice
