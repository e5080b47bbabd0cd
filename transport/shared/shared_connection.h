#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "lib/base/messages/bell.h"
#include "lib/base/messages/message.h"
#include "transport/links/event_fd.h"
#include "transport/links/exclusive_run.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/links/spin.h"
#include "transport/shared/shared_area.h"
#include "transport/shared/shared_frames.h"
#include "transport/shared/shared_offer.h"
#include "transport/shared/shared_slots.h"
#include "transport/wire/link_options.h"
#include "transport/wire/mailbox.h"

namespace sluice {

/// A link over shared memory. Frames are moved by the thread that is in send()
/// or receive(), or by the I/O thread when the ring is full and the peer has
/// more to send. So a message that fits into the ring wakes no other thread.
/// The socket shows whether the peer is alive.
class SharedConnection : public std::enable_shared_from_this<SharedConnection> {
 public:
  /// Takes a socket of that thread. Throws UserError when there is no memory
  /// for the area.
  SharedConnection(IoThread& io, Socket socket, LinkOptions options,
                   std::vector<std::byte> first);
  /// Begins the work for which shared_from_this() is needed; call it once,
  /// after construction.
  void start();

  // Called by the ends of the link, as in lib/base/messages/channel.h; send()
  // by the sending one.
  void send(Message message);
  void close_sender();
  void drop_sender();
  const std::shared_ptr<SlotPool>& slots() const { return slots_; }
  SharedArea& own_area() const { return *own_area_; }

  /// Lets the I/O thread, too, from now on, read messages when they arrive, and
  /// rings the bell for them.
  void ring(std::shared_ptr<Bell> bell);

  std::optional<Message> receive();
  bool can_send();
  bool ready();
  std::optional<MessageHead> next_head();
  std::optional<std::chrono::steady_clock::time_point> next_arrived();
  std::size_t waiting_bytes();
  void drop_receiver();

  /// Payload that this process copied into the ring, and out of it.
  std::uint64_t copied_in() const { return writer_.copied_bytes(); }
  std::uint64_t copied_out() const;
  /// The peer's area; nullptr before the peer has offered it.
  SharedArea* peers_area() const;

 private:
  using Self = std::shared_ptr<SharedConnection>;
  using Clock = Mailbox::Clock;

  // Called on any thread; these never block.
  void read_frames();
  void write_frames();
  bool write_all();
  void hand_over();
  bool has_work() const;
  void fail(const LinkEnd& end);
  void fail();
  void wake_sleepers() const;
  void wake_peer(EventFd Offer::*bell) const;
  void note_reading();
  void note_progress();
  void post_look();

  // What an end waits with. It clears its bell itself, so that no other end can
  // take a wake-up that was meant for it.
  struct Waiter {
    Waiter(SleepReason what, Spin::Time start) : wanted(what), spin(start) {}

    const SleepReason wanted;
    Spin spin;
    EventFd bell = {};
    std::atomic<bool> sleeps = false;
  };

  // Called on an end's thread.
  template <class Done>
  bool await(Waiter& waiter, Done done);
  template <class Done>
  void sleep(Waiter& waiter, Done done, Clock::duration most);

  // Coroutines of the I/O thread.
  static boost::asio::awaitable<void> watch_socket(Self self);
  static boost::asio::awaitable<void> attend_bell(Self self);
  static boost::asio::awaitable<void> attend_end_bell(Self self);
  boost::asio::awaitable<void> greet();
  boost::asio::awaitable<void> await_end();
  void adopt(Offer offer);
  void look();
  void beat();
  void linger(Clock::duration left);
  void close();

  const IoThread& io_;
  const LinkOptions options_;
  const Socket::executor_type executor_;
  Mailbox mailbox_;
  Socket socket_;
  std::vector<std::byte> first_;
  FileDescriptor file_;  // of our area, until it is passed
  const std::shared_ptr<SharedArea> own_area_;
  const std::shared_ptr<SlotPool> slots_;
  FrameWriter writer_;  // used inside write_run_
  ExclusiveRun write_run_;
  std::atomic<bool> is_blocked_ = false;  // more to write than there is room
  ExclusiveRun read_run_;
  boost::asio::posix::stream_descriptor io_bell_;
  const EventFd end_bell_;           // rung by the peer
  std::atomic<bool> rings_ = false;  // bells of the ends
  // The same bell, where the I/O thread attends to it too.
  boost::asio::posix::stream_descriptor watched_end_bell_;
  Waiter sender_;
  Waiter receiver_;
  boost::asio::steady_timer beat_;
  boost::asio::steady_timer linger_;
  bool greeted_ = false;
  bool lingering_ = false;
  std::atomic<bool> finished_ = false;  // nothing is left to write, ever
  std::atomic<std::uint64_t> seen_head_ = 0;
  std::atomic<std::uint64_t> seen_progress_ = 0;

  // Made by the I/O thread before peer_ points there.
  struct Peer {
    Peer(Offer offered, SharedConnection& self);

    Offer offer;
    FrameReader reader;  // used inside read_run_
  };
  std::unique_ptr<Peer> peer_owner_;
  std::atomic<Peer*> peer_ = nullptr;
  std::atomic<bool> peer_gone_ = false;
  std::atomic<bool> failed_ = false;
};

}  // namespace sluice
