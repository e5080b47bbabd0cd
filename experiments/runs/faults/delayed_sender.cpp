#include "experiments/runs/faults/delayed_sender.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/error.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

class DelayedSender final : public Sender {
 public:
  DelayedSender(std::unique_ptr<Sender> inner, std::chrono::microseconds delay,
                std::size_t room)
      : inner_(std::move(inner)), delay_(delay), room_(room) {
    thread_ = std::jthread([this](const std::stop_token& over) { work(over); });
  }
  ~DelayedSender() override {
    const bool is_closed = [&] {
      const std::lock_guard lock(mutex_);
      return closed_;
    }();
    if (!is_closed) thread_.request_stop();
    thread_.join();
  }
  DelayedSender(const DelayedSender&) = delete;
  DelayedSender& operator=(const DelayedSender&) = delete;

  void send(Message message) override {
    std::unique_lock lock(mutex_);
    SLUICE_CHECK(!closed_, "a message is sent after close");
    changed_.wait(lock, [&] { return has_answer(); });
    if (failure_) std::rethrow_exception(failure_);
    queue_.push_back({Clock::now() + delay_, std::move(message)});
    changed_.notify_all();
  }

  bool ready() const override {
    const std::lock_guard lock(mutex_);
    return has_answer();
  }

  void ring(std::shared_ptr<Bell> bell) override {
    const std::lock_guard lock(mutex_);
    bells_.push_back(std::move(bell));
  }

  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  struct DueMessage {
    Clock::time_point when = {};
    Message message = {};
  };

  bool has_answer() const { return queue_.size() < room_ || failure_; }

  void notify() {
    changed_.notify_all();
    for (const auto& bell : bells_) bell->ring();
  }

  /// The next message that is due; nothing at the end, and when the sender
  /// shall end at once.
  std::optional<Message> next(const std::stop_token& over) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, over, [&] { return closed_ || !queue_.empty(); });
    if (queue_.empty() || over.stop_requested()) return std::nullopt;
    // The message stays in the queue until it is due.
    const Clock::time_point when = queue_.front().when;
    std::condition_variable_any never;
    never.wait_until(lock, over, when, [] { return false; });
    if (over.stop_requested()) return std::nullopt;
    Message message = std::move(queue_.front().message);
    queue_.pop_front();
    notify();
    return message;
  }

  void work(const std::stop_token& over) {
    try {
      while (std::optional<Message> message = next(over))
        inner_->send(std::move(*message));
      if (!over.stop_requested()) inner_->close();
    } catch (const std::exception&) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      notify();
    }
  }

  std::unique_ptr<Sender> inner_;  // used by the thread alone
  const std::chrono::microseconds delay_;
  const std::size_t room_;
  mutable std::mutex mutex_;  // guards all below but the thread
  std::condition_variable_any changed_;
  std::vector<std::shared_ptr<Bell>> bells_;
  std::deque<DueMessage> queue_;
  bool closed_ = false;
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Sender> delayed_sender(std::unique_ptr<Sender> inner,
                                       std::chrono::microseconds delay,
                                       std::size_t room) {
  return std::make_unique<DelayedSender>(std::move(inner), delay, room);
}

}  // namespace sluice
