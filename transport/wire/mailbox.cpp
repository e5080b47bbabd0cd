#include "transport/wire/mailbox.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

[[noreturn]] void throw_end(
    fmt::format_string<const std::string&, const std::string&,
                       const std::string&>
        text,
    const LinkOptions& options, const LinkEnd& end) {
  if (end.peer_gone)
    throw PeerGoneError(text, options.here, options.there, end.reason);
  throw LinkError(text, options.here, options.there, end.reason);
}

}  // namespace

LinkEnd end_after(const std::exception& error) {
  return {.reason = error.what(),
          .peer_gone = dynamic_cast<const PeerGoneError*>(&error) != nullptr};
}

Mailbox::Mailbox(LinkOptions options, Callbacks callbacks)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      last_move_(awake_.now().time_since_epoch().count()),
      credits_(options_.capacity_send) {}

Mailbox::Clock::duration Mailbox::time_left(Clock::time_point since) {
  return std::max(since, last_move()) +
         std::min(options_.deadline, kLongestWait) - awake_.now();
}

void Mailbox::give_up_sending() {
  give_up(fmt::format("it took none of {} messages within {} ms",
                      options_.capacity_send, options_.deadline.count()));
}

void Mailbox::give_up_receiving() {
  give_up(fmt::format("none came within {} ms", options_.deadline.count()));
}

// The link is dead: what the peer would still send is unknown.
void Mailbox::give_up(const std::string& reason) {
  const Lock lock(mutex_);
  reading_ = false;
  if (!is_dead()) failure_ = {.reason = reason};
  tell();
  callbacks_.wake();
}

// Called with the mutex.
void Mailbox::tell() {
  for (const auto& bell : bells_) bell->ring();
  callbacks_.changed();
}

OutgoingFrames Mailbox::prepare(Message message) const {
  for (const TensorView& tensor : message.tensors) {
    SLUICE_CHECK(tensor.buffer.device.kind == Device::Kind::cpu,
                 "tensor '{}' is not on the CPU", tensor.name);
    if (tensor.buffer.wait_ready) tensor.buffer.wait_ready();
  }
  OutgoingFrames frame{.head =
                           encode_message(message, sent_ + 1, options_.limits,
                                          options_.checksum)};
  if (options_.damage) options_.damage(message, frame.damaged = frame.head);
  frame.message = std::move(message);
  return frame;
}

void Mailbox::send(OutgoingFrames frame) {
  const Lock lock(mutex_);
  SLUICE_CHECK(!closed_, "{} sends to {} after close", options_.here,
               options_.there);
  if (cannot_send()) {
    constexpr auto kText = "{} waited for {} to take a message: {}";
    if (!is_dead())
      throw PeerGoneError(kText, options_.here, options_.there, kGone);
    throw_end(kText, options_, failure_);
  }
  SLUICE_CHECK(credits_ > 0, "{} sends to {} without a credit", options_.here,
               options_.there);
  --credits_;
  ++sent_;
  outbox_.push_back(std::move(frame));
}

void Mailbox::close() {
  const Lock lock(mutex_);
  closed_ = true;
  callbacks_.wake();
}

void Mailbox::drop_sender() {
  const Lock lock(mutex_);
  sender_gone_ = true;
  callbacks_.wake();
}

std::optional<Message> Mailbox::receive() {
  const Lock lock(mutex_);
  SLUICE_CHECK(has_answer(), "{} receives from {} what has not come",
               options_.here, options_.there);
  if (inbox_.empty()) {
    if (no_more_ && !quit_) return std::nullopt;
    constexpr auto kText = "{} waited for a message from {}: {}";
    if (quit_) throw PeerGoneError(kText, options_.here, options_.there, kGone);
    throw_end(kText, options_, failure_);
  }
  Message message = std::move(inbox_.front());
  inbox_.pop_front();
  ++taken_;
  ++to_credit_;
  return message;
}

std::size_t Mailbox::waiting_bytes() const {
  const Lock lock(mutex_);
  return payload_bytes(inbox_);
}

bool Mailbox::ready() const {
  const Lock lock(mutex_);
  return has_answer();
}

bool Mailbox::can_send() const {
  const Lock lock(mutex_);
  return credits_ > 0 || closed_ || cannot_send();
}

std::optional<MessageHead> Mailbox::next_head() const {
  const Lock lock(mutex_);
  if (inbox_.empty()) return std::nullopt;
  const Message& first = inbox_.front();
  return MessageHead{first.kind, first.batch, first.round};
}

std::optional<std::chrono::steady_clock::time_point> Mailbox::next_arrived()
    const {
  const Lock lock(mutex_);
  if (inbox_.empty()) return std::nullopt;
  return inbox_.front().arrived;
}

void Mailbox::ring(std::shared_ptr<Bell> bell) {
  const Lock lock(mutex_);
  bells_.push_back(std::move(bell));
}

void Mailbox::drop_receiver() {
  std::deque<Message> unread;  // released after the lock
  const Lock lock(mutex_);
  receiver_gone_ = true;
  unread.swap(inbox_);
  callbacks_.wake();
}

}  // namespace sluice
