#include "lib/engines/heartbeat.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/messages/channel_around.h"
#include "lib/engines/control.h"

namespace sluice {
namespace {

class WatchedSender final : public SenderAround {
 public:
  WatchedSender(std::unique_ptr<Sender> inner, Heartbeat& heartbeat, int there)
      : SenderAround(std::move(inner)), heartbeat_(heartbeat), there_(there) {}
  void send(Message message) override {
    const WaitScope waiting(heartbeat_, there_);
    inner().send(std::move(message));
  }

 private:
  Heartbeat& heartbeat_;
  int there_;
};

class WatchedReceiver final : public ReceiverAround {
 public:
  WatchedReceiver(std::unique_ptr<Receiver> inner, Heartbeat& heartbeat,
                  int there)
      : ReceiverAround(std::move(inner)),
        heartbeat_(heartbeat),
        there_(there) {}
  std::optional<Message> receive() override {
    const WaitScope waiting(heartbeat_, there_);
    return inner().receive();
  }
  bool discard() override {
    const WaitScope waiting(heartbeat_, there_);
    return inner().discard();
  }

 private:
  Heartbeat& heartbeat_;
  int there_;
};

class HeartbeatSender final : public Sender {
 public:
  HeartbeatSender(std::unique_ptr<Sender> inner, const Heartbeat& heartbeat,
                  std::chrono::milliseconds period)
      : inner_(std::move(inner)), heartbeat_(heartbeat), period_(period) {
    thread_ = std::jthread([this](const std::stop_token& over) { beat(over); });
  }

  void send(Message message) override {
    const std::lock_guard lock(mutex_);
    inner_->send(std::move(message));
  }
  bool ready() const override {
    const std::lock_guard lock(mutex_);
    return inner_->ready();
  }
  void ring(std::shared_ptr<Bell> bell) override {
    const std::lock_guard lock(mutex_);
    inner_->ring(std::move(bell));
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    inner_->close();
  }

 private:
  void beat(const std::stop_token& over) {
    std::unique_lock lock(mutex_);
    try {
      while (!over.stop_requested() && !closed_) {
        inner_->send(
            control_message(MessageKind::progress, heartbeat_.progress()));
        heartbeat_.lives();
        ended_.wait_for(lock, over, period_, [] { return false; });
      }
    } catch (const LinkError&) {
      // The launcher is gone; the worker finds out by itself.
    }
  }

  std::unique_ptr<Sender> inner_;
  const Heartbeat& heartbeat_;
  std::chrono::milliseconds period_;
  mutable std::mutex mutex_;  // guards inner_ and closed_
  std::condition_variable_any ended_;
  bool closed_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

void Heartbeat::begins(const Action& action) {
  turn_ = action.turn;
  action_ = static_cast<int>(action.op);
  moves();
}

void Heartbeat::moves() {
  waits_for_ = kNobody;
  ++moves_;
  if (on_move_) on_move_();
}

void Heartbeat::waits_for(int block) {
  waits_for_ = block;
}

void Heartbeat::lives() const {
  if (waits_for_ != kNobody && on_move_) on_move_();
}

void Heartbeat::waited(std::chrono::nanoseconds time) {
  waited_ += time.count();
}

Progress Heartbeat::progress() const {
  return {moves_, waits_for_, turn_, action_};
}

std::chrono::nanoseconds Heartbeat::waited() const {
  return std::chrono::nanoseconds(waited_.load());
}

WaitScope::WaitScope(Heartbeat& heartbeat, int there)
    : heartbeat_(heartbeat), started_(std::chrono::steady_clock::now()) {
  heartbeat.waits_for(there);
}

WaitScope::~WaitScope() {
  heartbeat_.waited(std::chrono::steady_clock::now() - started_);
  heartbeat_.moves();
}

Link with_waits_shown(Link link, Heartbeat& heartbeat, int there) {
  if (link.sender)
    link.sender = std::make_unique<WatchedSender>(std::move(link.sender),
                                                  heartbeat, there);
  if (link.receiver)
    link.receiver = std::make_unique<WatchedReceiver>(std::move(link.receiver),
                                                      heartbeat, there);
  return link;
}

std::unique_ptr<Sender> with_heartbeat(std::unique_ptr<Sender> control,
                                       const Heartbeat& heartbeat,
                                       std::chrono::milliseconds period) {
  return std::make_unique<HeartbeatSender>(std::move(control), heartbeat,
                                           period);
}

std::chrono::milliseconds heartbeat_period(Deadline deadline) {
  using std::chrono::milliseconds;
  return std::clamp<milliseconds>(deadline / 8, milliseconds(10),
                                  milliseconds(1000));
}

}  // namespace sluice
