#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/awake_clock.h"
#include "lib/base/messages/bell.h"
#include "lib/base/messages/channel.h"
#include "lib/base/messages/message.h"
#include "transport/wire/frame.h"
#include "transport/wire/link_options.h"

namespace sluice {

/// What is to be written next: whole frames, the last of which may be a data
/// frame whose payload is the message's tensors. Nothing when `head` is empty.
struct OutgoingFrames {
  std::vector<std::byte> head = {};
  std::vector<std::byte> damaged = {};  ///< what is written instead, once
  Message message = {};
  bool beats_only = false;  ///< nothing but a heartbeat
};

/// How far an end has come, in messages of the whole link.
struct ResumePoint {
  std::uint64_t received = 0;  ///< came
  std::uint64_t taken = 0;     ///< of those, its user has
};

/// Reason why nothing more comes or goes.
struct LinkEnd {
  std::string reason = {};
  bool peer_gone = false;  ///< because the peer went, and nothing else
};
LinkEnd end_after(const std::exception& error);

/// The state that a link's ends share with the thread that reads and writes:
/// the queues, the credits and the reason why a link is dead. Knows no sockets,
/// and blocks no caller.
class Mailbox {
 public:
  using Clock = std::chrono::steady_clock;

  /// Called under the mailbox's mutex; neither may call it back.
  struct Callbacks {
    /// Called on an end's thread: there may be something to write. Not called
    /// by send and receive, whose callers write anyway.
    std::function<void()> wake = [] {};
    /// Called by the thread that reads or writes: an end that waits looks
    /// again.
    std::function<void()> changed = [] {};
  };

  Mailbox(LinkOptions options, Callbacks callbacks);

  // Functions for the ends, as in lib/base/messages/channel.h, except that the
  // ends wait themselves: for can_send() and ready(), while time is left, and
  // then give the link up.

  /// The frame of the message that is sent next: waits until its buffers are
  /// ready, and may read all of it for its checksum.
  OutgoingFrames prepare(Message message) const;
  /// Throws LinkError when the link is dead; misuse unless can_send().
  void send(OutgoingFrames frame);
  void close();
  void drop_sender();
  /// Throws LinkError when none can come any more; misuse unless ready().
  std::optional<Message> receive();
  bool can_send() const;  ///< or send() throws
  bool ready() const;
  /// Start of a wait, and time that is left of the deadline of a wait that
  /// began then. Call it every kAwakeLook at least: time in which this process
  /// didn't run doesn't count.
  Clock::time_point awake_now() { return awake_.now(); }
  Clock::duration time_left(Clock::time_point since);
  void give_up_sending();
  void give_up_receiving();
  std::optional<MessageHead> next_head() const;
  std::optional<std::chrono::steady_clock::time_point> next_arrived() const;
  void ring(std::shared_ptr<Bell> bell);
  std::size_t waiting_bytes() const;
  void drop_receiver();

  // Functions for the thread that reads and writes; what the peer sent wrongly
  // is thrown as LinkError.

  void moved();  ///< bytes moved on the socket, either way, or a learner
  void beat(std::uint64_t progress);  ///< a heartbeat of ours is due
  void heard_beat(const FrameHeader& header);
  Clock::time_point last_move() const;
  enum class Credits : std::uint8_t {
    all,
    many  ///< fewer than half of them only with something else
  };
  /// The next frames to write: control frames and at most one message.
  OutgoingFrames next(Credits credits = Credits::all);
  bool owes_credits() const;  ///< that next() has left
  bool nothing_left() const;  ///< next() stays empty for ever
  bool abandoned() const;     ///< both ends were destroyed
  bool reading() const;       ///< false: the link is dead, or given up
  /// A data frame's header came: may it? False: it is a message that came
  /// before, to be thrown away.
  bool admit(const FrameHeader& header);
  void deliver(Message message);
  void heard_credit(const FrameHeader& header);
  void end_of_peer(FrameType type);  ///< bye, quit, stop or end
  /// Whether a link that reconnects has nothing left to be said, either way.
  bool over() const;
  /// The connection broke: returns what the peer must know to go on.
  ResumePoint resume_point();
  /// A new connection is there, and the peer said that it received so much: the
  /// rest is sent again. Throws LinkError when that can't be.
  void resume(const ResumePoint& peer);
  void sending_failed(const LinkEnd& end);
  void reading_ended(const LinkEnd& end);

 private:
  using Lock = std::lock_guard<std::mutex>;

  void give_up(const std::string& reason);
  void tell();
  bool reconnects() const { return options_.reconnect.count() > 0; }
  void acknowledge(std::uint64_t received);
  bool cannot_send() const { return stopped_ || is_dead(); }
  bool is_dead() const { return !failure_.reason.empty(); }
  bool has_answer() const { return !inbox_.empty() || no_more_ || !reading_; }

  const LinkOptions options_;
  const Callbacks callbacks_;
  AwakeClock awake_;
  // Sequence of the peer's last message. Only the reading thread moves it; over
  // shared memory another thread may write meanwhile.
  std::atomic<std::uint64_t> received_ = 0;
  // State of the thread that reads and writes: the progress to send in our next
  // heartbeat, and that of the peer's last one.
  std::optional<std::uint64_t> beat_;
  std::uint64_t peers_progress_ = 0;
  std::atomic<Clock::rep> last_move_;

  mutable std::mutex mutex_;
  // The members below are guarded by the mutex.
  std::vector<std::shared_ptr<Bell>> bells_;
  std::uint64_t sent_ = 0;  // last sequence; only the sending end moves it
  std::deque<OutgoingFrames> outbox_;
  // Messages that were written, and not yet acknowledged, on a link that
  // reconnects. The first has the sequence acknowledged_ + 1.
  std::deque<OutgoingFrames> written_;
  std::uint64_t acknowledged_ = 0;
  std::deque<Message> inbox_;
  std::size_t credits_;          // messages that may still be sent
  std::uint64_t taken_ = 0;      // messages that our user has received
  std::uint32_t to_credit_ = 0;  // credits that are not yet on the wire
  bool closed_ = false;
  bool sender_gone_ = false;
  bool receiver_gone_ = false;
  bool end_written_ = false;   // our bye or quit
  bool stop_written_ = false;  // our stop
  bool no_more_ = false;       // the peer's bye or quit came
  bool quit_ = false;          // it was a quit
  bool stopped_ = false;       // the peer's stop came
  bool over_ = false;          // an end frame was written, or came
  bool reading_ = true;
  LinkEnd failure_;  // why the link is dead; without a reason while it lives
};

}  // namespace sluice
