#include "lib/base/messages/departing_sender.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kMostDeparting = 2;

bool is_here(const Message& message) {
  return std::none_of(
      message.tensors.begin(), message.tensors.end(),
      [](const TensorView& tensor) { return !!tensor.buffer.wait_ready; });
}

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Pauses of who polls, each twice as long as the one before.
class Backoff {
 public:
  explicit Backoff(microseconds longest) : longest_(longest) {}
  void pause() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(2 * next_, longest_);
  }

 private:
  microseconds longest_;
  microseconds next_ = microseconds(10);
};

/// Polls where it can: to wait for an event of CUDA keeps a core busy.
void await_bytes(Buffer& buffer, const std::stop_token& over) {
  const auto wait = std::exchange(buffer.wait_ready, nullptr);
  const auto is_ready = std::exchange(buffer.is_ready, nullptr);
  if (!is_ready) return wait ? wait() : void();
  Backoff backoff(microseconds(200));
  while (!over.stop_requested() && !is_ready()) backoff.pause();
}

/// The channel is used by the thread while messages wait to leave, else by the
/// caller's.
class DepartingSender final : public Sender {
 public:
  DepartingSender(std::unique_ptr<Sender> channel, Deadline patience)
      : channel_(std::move(channel)), patience_(patience) {}
  ~DepartingSender() override {
    if (!thread_.joinable()) return;
    if (!closed_) thread_.request_stop();
    thread_.join();
  }
  DepartingSender(const DepartingSender&) = delete;
  DepartingSender& operator=(const DepartingSender&) = delete;

  void send(Message message) override {
    std::unique_lock lock(mutex_);
    SLUICE_CHECK(!closed_, "a message is sent after close");
    changed_.wait(lock, [this] {
      return departing_.size() < kMostDeparting || failure_ != nullptr;
    });
    if (failure_) std::rethrow_exception(failure_);
    if (departing_.empty() && is_here(message)) {
      lock.unlock();
      channel_->send(std::move(message));
      return;
    }
    departing_.push_back(std::move(message));
    if (!thread_.joinable())
      thread_ =
          std::jthread([this](const std::stop_token& over) { depart(over); });
    changed_.notify_all();
  }

  bool ready() const override {
    const std::lock_guard lock(mutex_);
    if (failure_) return true;
    return departing_.empty() && channel_->ready();
  }

  void ring(std::shared_ptr<Bell> bell) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [this] { return departing_.empty() || failure_ != nullptr; });
    bells_.push_back(bell);
    channel_->ring(std::move(bell));
  }

  void close() override {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    if (thread_.joinable())
      changed_.notify_all();
    else
      channel_->close();
  }

 private:
  void depart(const std::stop_token& over) {
    try {
      while (Message* const first = next(over)) {
        for (TensorView& tensor : first->tensors)
          await_bytes(tensor.buffer, over);
        await_room(over);
        if (over.stop_requested()) return;
        channel_->send(std::move(*first));
        has_left();
      }
      if (!over.stop_requested()) channel_->close();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      notify();
    }
  }

  /// Next message, which stays in the queue until it has left. nullptr: none
  /// will come.
  Message* next(const std::stop_token& over) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, over,
                  [this] { return closed_ || !departing_.empty(); });
    if (departing_.empty() || over.stop_requested()) return nullptr;
    return &departing_.front();
  }

  void await_room(const std::stop_token& over) const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begun = Clock::now();
    Backoff backoff(milliseconds(1));
    while (!over.stop_requested() && !channel_->ready() &&
           std::chrono::duration_cast<milliseconds>(Clock::now() - begun) <
               patience_)
      backoff.pause();
  }

  void has_left() {
    const std::lock_guard lock(mutex_);
    departing_.pop_front();
    notify();
  }

  // Wakes all that wait. Called with the mutex held.
  void notify() {
    changed_.notify_all();
    for (const auto& bell : bells_) bell->ring();
  }

  const std::unique_ptr<Sender> channel_;
  const Deadline patience_;
  mutable std::mutex mutex_;  // guards all below but the thread
  std::condition_variable_any changed_;
  std::vector<std::shared_ptr<Bell>> bells_;
  std::deque<Message> departing_;
  bool closed_ = false;
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Sender> departing_sender(std::unique_ptr<Sender> channel,
                                         Deadline patience) {
  return std::make_unique<DepartingSender>(std::move(channel), patience);
}

}  // namespace sluice
