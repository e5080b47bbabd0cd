// The members of Mailbox for the thread that reads and writes.
#include <chrono>
#include <iterator>
#include <utility>

#include "lib/base/error.h"
#include "transport/wire/mailbox.h"

namespace sluice {
namespace {

void append(std::vector<std::byte>& to, const std::vector<std::byte>& bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

void Mailbox::moved() {
  last_move_.store(awake_.now().time_since_epoch().count());
}

Mailbox::Clock::time_point Mailbox::last_move() const {
  return Clock::time_point(Clock::duration(last_move_.load()));
}

void Mailbox::beat(std::uint64_t progress) {
  beat_ = progress;
}

void Mailbox::heard_beat(const FrameHeader& header) {
  acknowledge(header.received);
  if (std::exchange(peers_progress_, header.progress) != header.progress) {
    moved();
  }
}

OutgoingFrames Mailbox::next(Credits credits) {
  OutgoingFrames out;
  if (beat_) {
    out.head = encode_frame({.type = FrameType::beat,
                             .received = received_,
                             .progress = *std::exchange(beat_, {})});
  }
  const std::size_t beat_bytes = out.head.size();
  const Lock lock(mutex_);
  if (reconnects() && no_more_ && stopped_) {
    if (!std::exchange(over_, true)) {
      append(out.head, encode_frame(FrameType::end));
    }
    return out;
  }
  const bool alone = out.head.empty() && outbox_.empty();
  const bool few = to_credit_ < (options_.capacity_receive + 1) / 2;
  if (to_credit_ > 0 && !(credits == Credits::many && few && alone)) {
    append(out.head, encode_frame({.type = FrameType::credit,
                                   .count = std::exchange(to_credit_, 0),
                                   .received = received_}));
  }
  if (receiver_gone_ && !stop_written_) {
    append(out.head, encode_frame(FrameType::stop));
    stop_written_ = true;
  }
  if (!outbox_.empty()) {
    const auto damaged = std::exchange(outbox_.front().damaged, {});
    append(out.head, damaged.empty() ? outbox_.front().head : damaged);
    out.message = outbox_.front().message;
    if (reconnects()) written_.push_back(std::move(outbox_.front()));
    outbox_.pop_front();
  } else if ((closed_ || sender_gone_) && !end_written_) {
    append(out.head, encode_frame(closed_ ? FrameType::bye : FrameType::quit));
    end_written_ = true;
  }
  out.beats_only = beat_bytes > 0 && out.head.size() == beat_bytes;
  return out;
}

bool Mailbox::owes_credits() const {
  const Lock lock(mutex_);
  return to_credit_ > 0;
}

bool Mailbox::nothing_left() const {
  const Lock lock(mutex_);
  if (is_dead()) return true;
  return reconnects() ? over_ : end_written_ && stop_written_;
}

bool Mailbox::over() const {
  const Lock lock(mutex_);
  return over_;
}

bool Mailbox::abandoned() const {
  const Lock lock(mutex_);
  return sender_gone_ && receiver_gone_;
}

bool Mailbox::reading() const {
  const Lock lock(mutex_);
  return reading_;
}

bool Mailbox::admit(const FrameHeader& header) {
  if (reconnects() && header.sequence <= received_) return false;
  if (header.sequence != received_ + 1) {
    throw LinkError("its message {} came after message {}", header.sequence,
                    received_);
  }
  const Lock lock(mutex_);
  if (no_more_) throw LinkError("it sent a message after its last one");
  if (received_ - taken_ >= options_.capacity_receive) {
    throw LinkError("it sent more than the {} messages agreed on",
                    options_.capacity_receive);
  }
  return true;
}

void Mailbox::deliver(Message message) {
  const Lock lock(mutex_);
  ++received_;
  if (receiver_gone_) return;
  message.arrived = std::chrono::steady_clock::now();
  inbox_.push_back(std::move(message));
  tell();
}

void Mailbox::heard_credit(const FrameHeader& header) {
  acknowledge(header.received);
  const Lock lock(mutex_);
  if (header.count > options_.capacity_send - credits_) {
    throw LinkError("it took {} messages of {} that were sent", header.count,
                    options_.capacity_send - credits_);
  }
  credits_ += header.count;
  tell();
}

void Mailbox::acknowledge(std::uint64_t received) {
  if (!reconnects()) return;
  std::vector<OutgoingFrames> released;  // after the lock
  const Lock lock(mutex_);
  if (received > acknowledged_ + written_.size()) {
    throw LinkError("it received {} messages of {} that were sent", received,
                    acknowledged_ + written_.size());
  }
  for (; acknowledged_ < received; ++acknowledged_) {
    released.push_back(std::move(written_.front()));
    written_.pop_front();
  }
}

ResumePoint Mailbox::resume_point() {
  const Lock lock(mutex_);
  to_credit_ = 0;  // `taken` tells it
  return {.received = received_, .taken = taken_};
}

void Mailbox::resume(const ResumePoint& peer) {
  acknowledge(peer.received);
  const Lock lock(mutex_);
  if (peer.received < acknowledged_ || peer.taken > peer.received ||
      peer.taken + options_.capacity_send < sent_) {
    throw LinkError(
        "it says that it received {} messages and took {}, of {} that were "
        "sent and {} that it had acknowledged",
        peer.received, peer.taken, sent_, acknowledged_);
  }
  outbox_.insert(outbox_.begin(), std::make_move_iterator(written_.begin()),
                 std::make_move_iterator(written_.end()));
  written_.clear();
  credits_ = options_.capacity_send - (sent_ - peer.taken);
  end_written_ = false;
  stop_written_ = false;
  tell();
}

void Mailbox::end_of_peer(FrameType type) {
  const Lock lock(mutex_);
  if (type == FrameType::end) {
    over_ = true;
  } else if (type == FrameType::stop) {
    stopped_ = true;
  } else {
    no_more_ = true;
    quit_ = type == FrameType::quit;
  }
  tell();
}

void Mailbox::sending_failed(const LinkEnd& end) {
  const Lock lock(mutex_);
  if (!is_dead()) failure_ = end;
  tell();
}

void Mailbox::reading_ended(const LinkEnd& end) {
  const Lock lock(mutex_);
  reading_ = false;
  if (!is_dead()) failure_ = end;
  tell();
}

}  // namespace sluice
