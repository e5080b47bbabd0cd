#include "lib/base/messages/memory_channel.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>

#include "lib/base/awake_clock.h"
#include "lib/base/error.h"
#include "lib/base/messages/bell.h"

namespace sluice {
namespace {

// State that both ends share; the last of them releases it.
struct Pipe {
  Pipe(std::size_t capacity_messages, Deadline wait, std::string label)
      : capacity(capacity_messages), deadline(wait), name(std::move(label)) {}

  const std::size_t capacity;
  const Deadline deadline;
  const std::string name;

  std::mutex mutex;
  RingingCondition changed;
  // The members below are guarded by the mutex.
  std::deque<Message> queue;
  bool closed = false;
  bool sender_gone = false;
  bool receiver_gone = false;

  // Waits until `done()`; false when this process ran for the deadline first.
  template <class Done>
  bool wait(std::unique_lock<std::mutex>& lock, Done done) {
    return wait_awake(changed, lock, deadline, done);
  }
};

class MemorySender final : public Sender {
 public:
  explicit MemorySender(std::shared_ptr<Pipe> pipe) : pipe_(std::move(pipe)) {}
  MemorySender(const MemorySender&) = delete;
  MemorySender& operator=(const MemorySender&) = delete;

  ~MemorySender() override {
    const std::lock_guard lock(pipe_->mutex);
    pipe_->sender_gone = true;
    pipe_->changed.notify_all();
  }

  void send(Message message) override {
    std::unique_lock lock(pipe_->mutex);
    SLUICE_CHECK(!pipe_->closed, "{}: send after close", pipe_->name);
    const bool in_time = pipe_->wait(lock, [&] {
      return pipe_->receiver_gone || pipe_->queue.size() < pipe_->capacity;
    });
    if (pipe_->receiver_gone) {
      throw PeerGoneError("{}: the receiver is gone", pipe_->name);
    }
    if (!in_time) {
      throw LinkError("{}: {} messages were not received within {} ms",
                      pipe_->name, pipe_->capacity, pipe_->deadline.count());
    }
    message.arrived = std::chrono::steady_clock::now();
    pipe_->queue.push_back(std::move(message));
    pipe_->changed.notify_all();
  }

  bool ready() const override {
    const std::lock_guard lock(pipe_->mutex);
    return pipe_->receiver_gone || pipe_->queue.size() < pipe_->capacity;
  }

  void ring(std::shared_ptr<Bell> bell) override {
    const std::lock_guard lock(pipe_->mutex);
    pipe_->changed.add(std::move(bell));
  }

  void close() override {
    const std::lock_guard lock(pipe_->mutex);
    pipe_->closed = true;
    pipe_->changed.notify_all();
  }

 private:
  std::shared_ptr<Pipe> pipe_;
};

class MemoryReceiver final : public Receiver {
 public:
  explicit MemoryReceiver(std::shared_ptr<Pipe> pipe)
      : pipe_(std::move(pipe)) {}
  MemoryReceiver(const MemoryReceiver&) = delete;
  MemoryReceiver& operator=(const MemoryReceiver&) = delete;

  ~MemoryReceiver() override {
    std::deque<Message> unread;  // released after the lock
    const std::lock_guard lock(pipe_->mutex);
    pipe_->receiver_gone = true;
    unread.swap(pipe_->queue);
    pipe_->changed.notify_all();
  }

  std::optional<Message> receive() override {
    std::unique_lock lock(pipe_->mutex);
    const bool in_time = pipe_->wait(lock, [&] { return has_answer(); });
    if (!in_time) {
      throw LinkError("{}: no message within {} ms", pipe_->name,
                      pipe_->deadline.count());
    }
    if (pipe_->queue.empty()) {
      if (pipe_->closed) return std::nullopt;
      throw PeerGoneError("{}: the sender is gone", pipe_->name);
    }
    Message message = std::move(pipe_->queue.front());
    pipe_->queue.pop_front();
    pipe_->changed.notify_all();
    return message;
  }

  bool ready() const override {
    const std::lock_guard lock(pipe_->mutex);
    return has_answer();
  }

  std::optional<MessageHead> next() const override {
    const std::lock_guard lock(pipe_->mutex);
    if (pipe_->queue.empty()) return std::nullopt;
    const Message& first = pipe_->queue.front();
    return MessageHead{first.kind, first.batch, first.round};
  }

  std::optional<std::chrono::steady_clock::time_point> next_arrived()
      const override {
    const std::lock_guard lock(pipe_->mutex);
    if (pipe_->queue.empty()) return std::nullopt;
    return pipe_->queue.front().arrived;
  }

  void ring(std::shared_ptr<Bell> bell) override {
    const std::lock_guard lock(pipe_->mutex);
    pipe_->changed.add(std::move(bell));
  }

  std::size_t waiting_bytes() const override {
    const std::lock_guard lock(pipe_->mutex);
    return payload_bytes(pipe_->queue);
  }

 private:
  // Under the mutex.
  bool has_answer() const {
    return !pipe_->queue.empty() || pipe_->closed || pipe_->sender_gone;
  }

  std::shared_ptr<Pipe> pipe_;
};

}  // namespace

std::pair<std::unique_ptr<Sender>, std::unique_ptr<Receiver>> memory_channel(
    std::size_t capacity_messages, Deadline deadline, std::string name) {
  SLUICE_CHECK(capacity_messages > 0, "{}: capacity 0", name);
  // Longer waits overflow the clock.
  const Deadline wait = std::min<Deadline>(deadline, std::chrono::hours(8760));
  auto pipe = std::make_shared<Pipe>(capacity_messages, wait, std::move(name));
  return {std::make_unique<MemorySender>(pipe),
          std::make_unique<MemoryReceiver>(pipe)};
}

std::pair<Link, Link> memory_link(std::size_t capacity_up,
                                  std::size_t capacity_down, Deadline deadline,
                                  std::string name) {
  auto [up_sender, up_receiver] =
      memory_channel(capacity_up, deadline, name + ", up");
  auto [down_sender, down_receiver] =
      memory_channel(capacity_down, deadline, name + ", down");
  return {Link{.sender = std::move(up_sender),
               .receiver = std::move(down_receiver)},
          Link{.sender = std::move(down_sender),
               .receiver = std::move(up_receiver)}};
}

}  // namespace sluice
