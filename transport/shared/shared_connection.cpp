#include "transport/shared/shared_connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "lib/base/error.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

AreaShape shape_of(const SharedMemoryOptions& options) {
  return {.ring_bytes = options.ring_bytes,
          .slots = options.slots,
          .slot_bytes = options.slot_bytes};
}

SlotPages pages_of(const SharedMemoryOptions& options) {
  return options.slots_on_demand ? SlotPages::on_demand : SlotPages::now;
}

}  // namespace

SharedConnection::SharedConnection(IoThread& io, Socket socket,
                                   LinkOptions options,
                                   std::vector<std::byte> first)
    : io_(io),
      options_(std::move(options)),
      executor_(socket.get_executor()),
      mailbox_(options_, {}),  // the ends look themselves, after each call
      socket_(std::move(socket)),
      first_(std::move(first)),
      own_area_(SharedArea::make(shape_of(options_.shared_memory), file_,
                                 pages_of(options_.shared_memory))),
      slots_(std::make_shared<SlotPool>(own_area_)),
      writer_(own_area_, slots_, [this] { wake_peer(&Offer::end_bell); }),
      io_bell_(executor_, EventFd().release()),
      watched_end_bell_(executor_),
      sender_(SleepReason::credit, options_.shared_memory.spin),
      receiver_(SleepReason::message, options_.shared_memory.spin),
      beat_(executor_),
      linger_(executor_) {}

void SharedConnection::start() {
  asio::post(executor_, [self = shared_from_this()] { self->beat(); });
  asio::co_spawn(executor_, watch_socket(shared_from_this()), asio::detached);
  asio::co_spawn(executor_, attend_bell(shared_from_this()), asio::detached);
}

void SharedConnection::send(Message message) {
  OutgoingFrames frame = mailbox_.prepare(std::move(message));
  if (has_work()) read_frames();  // the peer may have stopped receiving
  if (!await(sender_, [this] { return mailbox_.can_send(); })) {
    mailbox_.give_up_sending();
    fail();
  }
  mailbox_.send(std::move(frame));
  write_frames();
  hand_over();
}

void SharedConnection::close_sender() {
  mailbox_.close();
  post_look();
}

void SharedConnection::drop_sender() {
  mailbox_.drop_sender();
  post_look();
}

void SharedConnection::ring(std::shared_ptr<Bell> bell) {
  mailbox_.ring(std::move(bell));
  if (rings_.exchange(true)) return;
  asio::post(executor_, [self = shared_from_this(),
                         copy = end_bell_.copy()]() mutable {
    if (!self->socket_.is_open()) return;
    self->watched_end_bell_.assign(copy.release());
    asio::co_spawn(self->executor_, attend_end_bell(self), asio::detached);
  });
}

std::optional<Message> SharedConnection::receive() {
  if (!await(receiver_, [this] { return mailbox_.ready(); })) {
    mailbox_.give_up_receiving();
    fail();
  }
  std::optional<Message> message = mailbox_.receive();
  write_frames();  // the credit
  hand_over();
  return message;
}

bool SharedConnection::can_send() {
  read_frames();  // credits
  return mailbox_.can_send();
}

bool SharedConnection::ready() {
  read_frames();
  return mailbox_.ready();
}

std::optional<MessageHead> SharedConnection::next_head() {
  read_frames();
  return mailbox_.next_head();
}

std::optional<std::chrono::steady_clock::time_point>
SharedConnection::next_arrived() {
  read_frames();
  return mailbox_.next_arrived();
}

std::size_t SharedConnection::waiting_bytes() {
  read_frames();
  return mailbox_.waiting_bytes();
}

void SharedConnection::drop_receiver() {
  mailbox_.drop_receiver();
  post_look();
}

std::uint64_t SharedConnection::copied_out() const {
  const Peer* const peer = peer_;
  return peer == nullptr ? 0 : peer->reader.copied_bytes();
}

SharedArea* SharedConnection::peers_area() const {
  const Peer* const peer = peer_;
  return peer == nullptr ? nullptr : &peer->reader.area();
}

void SharedConnection::read_frames() {
  Peer* const peer = peer_;
  if (peer == nullptr) return;
  bool any = false;
  read_run_.run([&] {
    if (failed_) return;
    // Asked first: what a peer wrote before it went is still read.
    const bool is_last = peer_gone_;
    try {
      any |= peer->reader.read();
      if (rings_) {
        // Read once more: data that came before the peer could see the flag
        // rings no bell.
        peer->reader.ring().announce_sleep(SleepReason::credit);
        any |= peer->reader.read();
      }
      if (is_last) throw PeerGoneError("it is gone");
    } catch (const std::exception& error) {
      fail(end_after(error));
    }
  });
  if (any) wake_sleepers();
}

void SharedConnection::write_frames() {
  write_run_.run([this] {
    try {
      is_blocked_ = !write_all();
    } catch (const std::exception& error) {
      fail(end_after(error));
    }
  });
}

// Writes all frames; false when the ring is full before.
bool SharedConnection::write_all() {
  while (!failed_) {
    if (!writer_.write()) return false;
    OutgoingFrames out = mailbox_.next();
    if (out.head.empty()) break;
    writer_.begin(std::move(out));
  }
  finished_ = mailbox_.nothing_left();
  return true;
}

// No end is about to look at the ring again: the I/O threads go on from here,
// the peer's with making room, ours when there is some.
void SharedConnection::hand_over() {
  if (!is_blocked_) return;
  writer_.ring().announce_sleep();
  write_frames();
  if (is_blocked_) wake_peer(&Offer::io_bell);
}

bool SharedConnection::has_work() const {
  const Peer* const peer = peer_;
  return (peer != nullptr && peer->reader.ring().has_data()) ||
         (is_blocked_ && writer_.ring().has_room());
}

// Ends the link, both ways.
void SharedConnection::fail(const LinkEnd& end) {
  mailbox_.reading_ended(end);
  fail();
}

void SharedConnection::fail() {
  failed_ = true;
  wake_sleepers();
  asio::post(executor_, [self = shared_from_this()] { self->close(); });
}

void SharedConnection::wake_sleepers() const {
  if (sender_.sleeps) sender_.bell.ring();
  if (receiver_.sleeps) receiver_.bell.ring();
}

void SharedConnection::wake_peer(EventFd Offer::*bell) const {
  const Peer* const peer = peer_;
  if (peer != nullptr) (peer->offer.*bell).ring();
}

// Counts it as a move when the peer has read.
void SharedConnection::note_reading() {
  const std::uint64_t head = own_area_->words().head.load();
  if (seen_head_.exchange(head) != head) mailbox_.moved();
}

// Counts it as a move, too, when the peer's learner has moved, or waits for
// others.
void SharedConnection::note_progress() {
  note_reading();
  const Peer* const peer = peer_;
  if (peer == nullptr) return;
  const std::uint64_t progress = peer->reader.progress();
  if (seen_progress_.exchange(progress) != progress) mailbox_.moved();
}

// Shows the peer, when it looks, whether the learner of this process moves.
void SharedConnection::beat() {
  if (!socket_.is_open()) return;
  own_area_->words().progress.store(io_.progress());
  beat_.expires_after(options_.heartbeat);
  beat_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->beat();
  });
}

void SharedConnection::post_look() {
  asio::post(executor_, [self = shared_from_this()] { self->look(); });
}

// Moves frames until done(); false when nothing moved for the deadline.
template <class Done>
bool SharedConnection::await(Waiter& waiter, Done done) {
  const Clock::time_point start = Clock::now();
  const Clock::time_point since = mailbox_.awake_now();
  bool has_waited = false;
  while (!done()) {
    read_frames();
    if (is_blocked_) write_frames();
    if (done()) break;
    has_waited = true;
    note_progress();
    const Clock::duration left = mailbox_.time_left(since);
    if (left <= Clock::duration::zero()) return false;
    if (!waiter.spin.until([this] { return has_work() || failed_; })) {
      sleep(waiter, done, std::min<Clock::duration>(left, kAwakeLook));
    }
  }
  if (has_waited) waiter.spin.adapt(Clock::now() - start);
  return true;
}

template <class Done>
void SharedConnection::sleep(Waiter& waiter, Done done, Clock::duration most) {
  waiter.sleeps = true;
  if (Peer* const peer = peer_)
    peer->reader.ring().announce_sleep(waiter.wanted);
  hand_over();
  if (!done() && !has_work()) {
    waiter.bell.sleep(end_bell_, most);
  }
  waiter.sleeps = false;
  waiter.bell.clear();
  end_bell_.clear();
  // The peer may have meant the other end, which sleeps: the end that clears
  // the eventfd reads, and wakes the other if there was anything.
  read_frames();
}

asio::awaitable<void> SharedConnection::watch_socket(Self self) {
  try {
    co_await self->greet();
    Offer offer = co_await receive_offer(self->socket_);
    self->adopt(std::move(offer));
    co_await self->await_end();
  } catch (const std::exception& error) {
    self->fail(end_after(error));
  }
}

asio::awaitable<void> SharedConnection::greet() {
  const auto [error, bytes] =
      co_await asio::async_write(socket_, asio::buffer(first_), kResult);
  check_peer(error);
  const OfferedFiles files{file_.get(), io_bell_.native_handle(),
                           end_bell_.descriptor()};
  co_await send_offer(socket_, own_area_->shape(), files);
  file_ = FileDescriptor();
  greeted_ = true;
  look();
}

SharedConnection::Peer::Peer(Offer offered, SharedConnection& self)
    : offer(std::move(offered)),
      reader(SharedArea::adopt(offer.shape, offer.memory), self.mailbox_,
             self.options_, [&self] { self.wake_peer(&Offer::io_bell); }) {
  offer.memory = FileDescriptor();  // mapped is enough
}

void SharedConnection::adopt(Offer offer) {
  peer_owner_ = std::make_unique<Peer>(std::move(offer), *this);
  peer_ = peer_owner_.get();
  // Woken once: what either end wrote before could ring no bell.
  wake_peer(&Offer::io_bell);
  wake_peer(&Offer::end_bell);
  wake_sleepers();
  look();
}

asio::awaitable<void> SharedConnection::await_end() {
  std::array<std::byte, 1> byte = {};
  const auto [error, count] =
      co_await socket_.async_read_some(asio::buffer(byte), kResult);
  if (!error) throw LinkError("it wrote where it has nothing to say");
  peer_gone_ = true;
  read_frames();
}

asio::awaitable<void> SharedConnection::attend_bell(Self self) {
  using asio::posix::descriptor_base;
  for (;;) {
    const auto [error] =
        co_await self->io_bell_.async_wait(descriptor_base::wait_read, kResult);
    if (error) co_return;
    clear_bell(self->io_bell_.native_handle());
    self->look();
  }
}

// As in sleep(): the end that clears the eventfd reads, whichever end it was
// meant for.
asio::awaitable<void> SharedConnection::attend_end_bell(Self self) {
  using asio::posix::descriptor_base;
  self->look();
  for (;;) {
    const auto [error] = co_await self->watched_end_bell_.async_wait(
        descriptor_base::wait_read, kResult);
    if (error) co_return;
    self->end_bell_.clear();
    self->look();
  }
}

void SharedConnection::look() {
  if (!socket_.is_open()) return;
  read_frames();
  write_frames();
  hand_over();
  if (finished_ && greeted_) {
    // The peer closes its side when it has read our last frame.
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  if (mailbox_.abandoned() && !std::exchange(lingering_, true))
    linger(std::min(options_.deadline, kLinger));
}

// Lingers as Connection::linger() does.
void SharedConnection::linger(Clock::duration left) {
  note_reading();
  const Clock::time_point moved = mailbox_.last_move();
  const Clock::duration step = std::min<Clock::duration>(left, kAwakeLook);
  linger_.expires_after(step);
  linger_.async_wait(
      [self = shared_from_this(), moved, left = left - step](error_code error) {
        if (error) return;
        self->note_reading();
        if (moved != self->mailbox_.last_move()) {
          self->linger(std::min(self->options_.deadline, kLinger));
        } else if (left > Clock::duration::zero()) {
          self->linger(left);
        } else {
          self->close();
        }
      });
}

void SharedConnection::close() {
  error_code ignored;
  socket_.close(ignored);
  beat_.cancel();
  io_bell_.close(ignored);
  watched_end_bell_.close(ignored);
  linger_.cancel();
}

}  // namespace sluice
