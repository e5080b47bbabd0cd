#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/message.h"
#include "transport/frame.h"
#include "transport/link_options.h"

namespace sluice {

/// What is to be written next: whole frames, the last of which may be a data
/// frame whose payload is the message's tensors. Nothing when `head` is empty.
struct Outgoing {
  std::vector<std::byte> head = {};
  Message message = {};
};

/// Where the ends of a link meet the I/O thread: the queues, the credits and
/// the reason why a link is dead. Knows no sockets. The I/O thread never waits
/// here; each end waits with the link's deadline, counted from when bytes last
/// moved.
class Mailbox {
 public:
  using Clock = std::chrono::steady_clock;

  /// `wake` tells the I/O thread to look again; called on the ends' threads.
  Mailbox(LinkOptions options, std::function<void()> wake);

  // For the ends, as in lib/base/channel.h.
  void send(Message message);
  void close();
  void drop_sender();
  std::optional<Message> receive();
  bool ready() const;
  std::size_t waiting_bytes() const;
  void drop_receiver();

  // For the I/O thread; what the peer sent wrongly is thrown as LinkError.

  void moved();  ///< bytes moved on the socket, either way
  Clock::time_point last_move() const;
  /// Control frames and at most one message.
  Outgoing next();
  bool nothing_left() const;  ///< next() stays empty for ever
  bool abandoned() const;     ///< both ends were destroyed
  bool reading() const;       ///< false: the link is dead, or given up
  /// A data frame's header came: may it?
  void admit(const FrameHeader& header);
  void deliver(Message message);
  void credit(std::uint32_t count);
  void end_of_peer(FrameType type);  ///< bye, quit or stop
  void sending_failed(const std::string& reason);
  void reading_ended(const std::string& reason);

 private:
  using Lock = std::unique_lock<std::mutex>;

  template <class Done>
  bool wait(Lock& lock, Done done);
  void give_up(const std::string& reason);
  bool cannot_send() const { return stopped_ || !failure_.empty(); }
  bool has_answer() const { return !inbox_.empty() || no_more_ || !reading_; }

  const LinkOptions options_;
  const std::function<void()> wake_;
  std::uint64_t sent_ = 0;      // the sending end's own: its last sequence
  std::uint64_t received_ = 0;  // the I/O thread's own: the peer's last
  std::atomic<Clock::rep> last_move_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // All below: under the mutex.
  std::deque<Outgoing> outbox_;
  std::deque<Message> inbox_;
  std::size_t credits_;          // messages that may still be sent
  std::size_t unread_ = 0;       // messages that came and weren't credited
  std::uint32_t to_credit_ = 0;  // credits that are not yet on the wire
  bool closed_ = false;
  bool sender_gone_ = false;
  bool receiver_gone_ = false;
  bool end_written_ = false;   // our bye or quit
  bool stop_written_ = false;  // our stop
  bool no_more_ = false;       // the peer's bye or quit came
  bool quit_ = false;          // it was a quit
  bool stopped_ = false;       // the peer's stop came
  bool reading_ = true;
  std::string failure_;  // why the link is dead, or nothing
};

}  // namespace sluice
