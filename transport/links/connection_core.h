#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>

#include "lib/base/buffer.h"
#include "transport/links/io_thread.h"
#include "transport/links/spin.h"
#include "transport/links/stream.h"
#include "transport/wire/frame.h"
#include "transport/wire/link_options.h"
#include "transport/wire/mailbox.h"

namespace sluice {

/// The stream of a link, and the two coroutines that own it: one always reads,
/// so that a peer is never kept from writing; the other writes what the mailbox
/// has. Where the link reconnects, they are started again on a new stream when
/// they ended. What is not for the ends is on the I/O thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(IoThread& io, Stream stream, LinkOptions options,
             std::vector<std::byte> first);

  static void start(const std::shared_ptr<Connection>& self);

  // Called by the ends of the link, as in lib/base/messages/channel.h.
  void send(Message message);
  std::optional<Message> receive();
  void ring(std::shared_ptr<Bell> bell);
  Mailbox& mailbox() { return mailbox_; }  ///< the rest

 private:
  bool await(IoThread::LoopGuard& guard, Spin& spin,
             bool (Mailbox::*done)() const);
  void write_soon(IoThread::LoopGuard& guard);
  void wake();
  bool write_at_once();
  // Both loops hold the connection until they have ended; the last one goes on.
  static boost::asio::awaitable<void> read_all(
      std::shared_ptr<Connection> self);
  static boost::asio::awaitable<void> write_all(
      std::shared_ptr<Connection> self);
  static boost::asio::awaitable<void> reconnect(
      std::shared_ptr<Connection> self);
  static void exchange(const std::shared_ptr<Connection>& self);
  static void ended(const std::shared_ptr<Connection>& self);

  bool reconnects() const;
  boost::asio::awaitable<void> meet_again();
  void finish();
  void give_up();
  boost::asio::awaitable<void> read_frame();
  boost::asio::awaitable<void> read_message(FrameHeader header);
  void supply_memory(Buffer& buffer);
  boost::asio::awaitable<void> read_payload(const Message& message);
  boost::asio::awaitable<std::uint32_t> read_and_sum(const Message& message);
  void take_control(const FrameHeader& header);
  boost::asio::awaitable<void> write_frames();
  bool take_next();
  void begin(OutgoingFrames out);
  void on_wake();
  void credit_later();
  void beat();
  void linger(Mailbox::Clock::duration left);

  IoThread& io_;
  const LinkOptions options_;
  const Socket::executor_type executor_;
  Mailbox mailbox_;
  Spin send_spin_;  // the ends' own
  Spin receive_spin_;
  const Stream::MoveCallback moved_;
  Stream stream_;
  boost::asio::steady_timer wake_;
  boost::asio::steady_timer credits_;
  bool credits_come_ = false;  // the timer runs
  bool credits_are_due_ = false;
  boost::asio::steady_timer beat_;
  boost::asio::steady_timer linger_;
  bool lingering_ = false;
  // Frames that are being written, and what is left of them.
  OutgoingFrames writing_;
  std::vector<boost::asio::const_buffer> unwritten_;
  bool writer_rests_ = false;
  int running_ = 0;  // of the two coroutines
  bool given_up_ = false;
  bool finished_ = false;
  LinkEnd end_;  // why the reader ended
  // On a link that reconnects: the heartbeats in which nothing came, and since
  // when there is no connection over which something came.
  int missed_beats_ = 0;
  bool silent_ = false;  // and closed for that
  std::optional<Mailbox::Clock::time_point> trouble_;
  std::vector<std::byte> first_;
  std::array<std::byte, kHeaderBytes> header_ = {};
  std::array<std::byte, kAlignment> skipped_ = {};
};

}  // namespace sluice
