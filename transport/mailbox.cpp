#include "transport/mailbox.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

// Longer waits overflow the clock.
constexpr Deadline kLongest = std::chrono::hours(8760);

void append(std::vector<std::byte>& to, const std::vector<std::byte>& bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

Mailbox::Mailbox(LinkOptions options, std::function<void()> wake)
    : options_(std::move(options)),
      wake_(std::move(wake)),
      last_move_(Clock::now().time_since_epoch().count()),
      credits_(options_.capacity_send) {}

// Waits until done(); false when nothing moved for as long as the deadline.
template <class Done>
bool Mailbox::wait(Lock& lock, Done done) {
  const Clock::time_point start = Clock::now();
  const Deadline deadline = std::min(options_.deadline, kLongest);
  while (!done()) {
    const Clock::time_point until = std::max(start, last_move()) + deadline;
    if (Clock::now() >= until) return false;
    changed_.wait_until(lock, until);
  }
  return true;
}

// The link is dead: nobody knows what the peer would still do.
void Mailbox::give_up(const std::string& reason) {
  failure_ = reason;
  reading_ = false;
  changed_.notify_all();
  wake_();
}

void Mailbox::send(Message message) {
  for (const TensorView& tensor : message.tensors) {
    SLUICE_CHECK(tensor.buffer.device.kind == Device::Kind::cpu,
                 "tensor '{}' is not on the CPU", tensor.name);
    if (tensor.buffer.wait_ready) tensor.buffer.wait_ready();
  }
  std::vector<std::byte> head =
      encode_message(message, sent_ + 1, options_.limits);
  Lock lock(mutex_);
  SLUICE_CHECK(!closed_, "{} sends to {} after close", options_.here,
               options_.there);
  if (!wait(lock, [&] { return credits_ > 0 || cannot_send(); })) {
    give_up(fmt::format("it took none of {} messages within {} ms",
                        options_.capacity_send, options_.deadline.count()));
  }
  if (cannot_send()) {
    throw LinkError("{} waited for {} to take a message: {}", options_.here,
                    options_.there,
                    failure_.empty() ? "it receives no more" : failure_);
  }
  --credits_;
  ++sent_;
  outbox_.push_back({std::move(head), std::move(message)});
  wake_();
}

void Mailbox::close() {
  const Lock lock(mutex_);
  closed_ = true;
  wake_();
}

void Mailbox::drop_sender() {
  const Lock lock(mutex_);
  sender_gone_ = true;
  wake_();
}

std::optional<Message> Mailbox::receive() {
  Lock lock(mutex_);
  if (!wait(lock, [&] { return has_answer(); })) {
    give_up(fmt::format("none came within {} ms", options_.deadline.count()));
  }
  if (inbox_.empty()) {
    if (no_more_ && !quit_) return std::nullopt;
    throw LinkError("{} waited for a message from {}: {}", options_.here,
                    options_.there,
                    quit_ ? "it stopped sending without a close" : failure_);
  }
  Message message = std::move(inbox_.front());
  inbox_.pop_front();
  --unread_;
  ++to_credit_;
  wake_();
  return message;
}

std::size_t Mailbox::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return payload_bytes(inbox_);
}

bool Mailbox::ready() const {
  const Lock lock(mutex_);
  return has_answer();
}

void Mailbox::drop_receiver() {
  std::deque<Message> unread;  // released after the lock
  const Lock lock(mutex_);
  receiver_gone_ = true;
  unread.swap(inbox_);
  wake_();
}

void Mailbox::moved() {
  last_move_.store(Clock::now().time_since_epoch().count());
}

Mailbox::Clock::time_point Mailbox::last_move() const {
  return Clock::time_point(Clock::duration(last_move_.load()));
}

Outgoing Mailbox::next() {
  Outgoing out;
  const Lock lock(mutex_);
  if (to_credit_ > 0) {
    append(out.head,
           encode_frame(FrameType::credit, {}, std::exchange(to_credit_, 0)));
  }
  if (receiver_gone_ && !stop_written_) {
    append(out.head, encode_frame(FrameType::stop));
    stop_written_ = true;
  }
  if (!outbox_.empty()) {
    append(out.head, outbox_.front().head);
    out.message = std::move(outbox_.front().message);
    outbox_.pop_front();
  } else if ((closed_ || sender_gone_) && !end_written_) {
    append(out.head, encode_frame(closed_ ? FrameType::bye : FrameType::quit));
    end_written_ = true;
  }
  return out;
}

bool Mailbox::nothing_left() const {
  const Lock lock(mutex_);
  return !failure_.empty() || (end_written_ && stop_written_);
}

bool Mailbox::abandoned() const {
  const Lock lock(mutex_);
  return sender_gone_ && receiver_gone_;
}

bool Mailbox::reading() const {
  const Lock lock(mutex_);
  return reading_;
}

void Mailbox::admit(const FrameHeader& header) {
  if (header.sequence != received_ + 1) {
    throw LinkError("its message {} came after message {}", header.sequence,
                    received_);
  }
  received_ = header.sequence;
  const Lock lock(mutex_);
  if (no_more_) throw LinkError("it sent a message after its last one");
  if (unread_ == options_.capacity_receive) {
    throw LinkError("it sent more than the {} messages agreed on",
                    options_.capacity_receive);
  }
  ++unread_;
}

void Mailbox::deliver(Message message) {
  const Lock lock(mutex_);
  if (receiver_gone_) return;
  inbox_.push_back(std::move(message));
  changed_.notify_all();
}

void Mailbox::credit(std::uint32_t count) {
  const Lock lock(mutex_);
  if (count > options_.capacity_send - credits_) {
    throw LinkError("it took {} messages of {} that were sent", count,
                    options_.capacity_send - credits_);
  }
  credits_ += count;
  changed_.notify_all();
}

void Mailbox::end_of_peer(FrameType type) {
  const Lock lock(mutex_);
  if (type == FrameType::stop) {
    stopped_ = true;
  } else {
    no_more_ = true;
    quit_ = type == FrameType::quit;
  }
  changed_.notify_all();
}

void Mailbox::sending_failed(const std::string& reason) {
  const Lock lock(mutex_);
  if (failure_.empty()) failure_ = reason;
  changed_.notify_all();
}

void Mailbox::reading_ended(const std::string& reason) {
  const Lock lock(mutex_);
  reading_ = false;
  if (failure_.empty()) failure_ = reason;
  changed_.notify_all();
}

}  // namespace sluice
