#include "lib/engines/centre_notices.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "lib/base/messages/bell.h"
#include "lib/engines/control.h"

namespace sluice {
namespace {

/// Length of a wait: all that may happen rings the bell, so it needs no end.
constexpr std::chrono::minutes kLongWaitForNews(1);

class NoticesAhead final : public Receiver {
 public:
  NoticesAhead(std::unique_ptr<Receiver> inner,
               std::shared_ptr<CentreNotices> notices)
      : inner_(std::move(inner)), notices_(std::move(notices)) {
    inner_->ring(bell_);
    thread_ = std::jthread([this](const std::stop_token& over) { look(over); });
  }
  ~NoticesAhead() override {
    thread_.request_stop();
    bell_->ring();
  }
  NoticesAhead(const NoticesAhead&) = delete;
  NoticesAhead& operator=(const NoticesAhead&) = delete;

  std::optional<Message> receive() override {
    const std::lock_guard lock(mutex_);
    while (taken_.empty()) take();
    if (taken_.front().error) std::rethrow_exception(taken_.front().error);
    std::optional<Message> message = taken_.front().message;
    if (message) taken_.pop_front();  // the end stays
    return message;
  }
  bool ready() const override {
    const std::lock_guard lock(mutex_);
    return !taken_.empty() || inner_->ready();
  }
  std::optional<MessageHead> next() const override {
    const std::lock_guard lock(mutex_);
    if (taken_.empty()) return inner_->next();
    if (!taken_.front().message) return std::nullopt;
    const Message& first = *taken_.front().message;
    return MessageHead{first.kind, first.batch, first.round};
  }
  std::optional<std::chrono::steady_clock::time_point> next_arrived()
      const override {
    const std::lock_guard lock(mutex_);
    if (taken_.empty()) return inner_->next_arrived();
    if (!taken_.front().message) return std::nullopt;
    return taken_.front().message->arrived;
  }
  void ring(std::shared_ptr<Bell> bell) override {
    const std::lock_guard lock(mutex_);
    inner_->ring(std::move(bell));
  }
  std::size_t waiting_bytes() const override {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = inner_->waiting_bytes();
    for (const LinkEvent& each : taken_)
      if (each.message) bytes += payload_bytes(*each.message);
    return bytes;
  }

 private:
  /// What the link gave, for receive(): without a message, its end.
  struct LinkEvent {
    std::optional<Message> message = {};
    std::exception_ptr error = nullptr;
  };

  void take() {
    LinkEvent next;
    try {
      next.message = inner_->receive();
      if (next.message && next.message->kind == MessageKind::centre)
        return notices_->tell(said_in<CentreNotice>(*next.message));
    } catch (...) {
      next.error = std::current_exception();
    }
    taken_.push_back(std::move(next));
  }
  bool has_ended() const { return !taken_.empty() && !taken_.back().message; }

  /// While the worker is in receive(), that takes them itself.
  void look(const std::stop_token& over) {
    while (!over.stop_requested()) {
      const std::uint64_t rung = bell_->rung();
      {
        const std::lock_guard lock(mutex_);
        while (!has_ended() && inner_->ready()) take();
        if (has_ended()) return;
      }
      bell_->wait(rung, kLongWaitForNews);
    }
  }

  const std::unique_ptr<Receiver> inner_;
  const std::shared_ptr<CentreNotices> notices_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  mutable std::mutex mutex_;  // guards the use of inner_, and taken_
  std::deque<LinkEvent> taken_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

void CentreNotices::tell(const CentreNotice& notice) {
  const std::lock_guard lock(mutex_);
  if (taker_)
    taker_(notice);
  else
    before_.push_back(notice);
}

void CentreNotices::give_to(std::function<void(const CentreNotice&)> taker) {
  const std::lock_guard lock(mutex_);
  taker_ = std::move(taker);
  for (const CentreNotice& each : std::exchange(before_, {})) taker_(each);
}

std::unique_ptr<Receiver> with_notices_ahead(
    std::unique_ptr<Receiver> control, std::shared_ptr<CentreNotices> notices) {
  return std::make_unique<NoticesAhead>(std::move(control), std::move(notices));
}

}  // namespace sluice
