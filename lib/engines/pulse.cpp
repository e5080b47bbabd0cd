#include "lib/engines/pulse.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "lib/base/channel_around.h"
#include "lib/base/error.h"
#include "lib/engines/control.h"

namespace sluice {
namespace {

class PulsingSender final : public SenderAround {
 public:
  PulsingSender(std::unique_ptr<Sender> inner, Pulse& pulse, int there)
      : SenderAround(std::move(inner)), pulse_(pulse), there_(there) {}
  void send(Message message) override {
    const Waiting waiting(pulse_, there_);
    inner().send(std::move(message));
  }

 private:
  Pulse& pulse_;
  int there_;
};

class PulsingReceiver final : public ReceiverAround {
 public:
  PulsingReceiver(std::unique_ptr<Receiver> inner, Pulse& pulse, int there)
      : ReceiverAround(std::move(inner)), pulse_(pulse), there_(there) {}
  std::optional<Message> receive() override {
    const Waiting waiting(pulse_, there_);
    return inner().receive();
  }

 private:
  Pulse& pulse_;
  int there_;
};

class HeartbeatSender final : public Sender {
 public:
  HeartbeatSender(std::unique_ptr<Sender> inner, const Pulse& pulse,
                  std::chrono::milliseconds period)
      : inner_(std::move(inner)), pulse_(pulse), period_(period) {
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
        inner_->send(control_message(MessageKind::progress, pulse_.record()));
        ended_.wait_for(lock, over, period_, [] { return false; });
      }
    } catch (const LinkError&) {
      // The launcher is gone; the worker finds out by itself.
    }
  }

  std::unique_ptr<Sender> inner_;
  const Pulse& pulse_;
  std::chrono::milliseconds period_;
  mutable std::mutex mutex_;  // guards inner_ and closed_
  std::condition_variable_any ended_;
  bool closed_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

void Pulse::begins(const Action& action) {
  turn_ = action.turn;
  action_ = static_cast<int>(action.op);
  moves();
}

void Pulse::moves() {
  waits_for_ = kNobody;
  ++moves_;
  if (on_move_) on_move_();
}

void Pulse::waits_for(int block) {
  waits_for_ = block;
}

void Pulse::waited(std::chrono::nanoseconds time) {
  waited_ += time.count();
}

Record Pulse::record() const {
  Record record;
  record.set("moves", moves_.load());
  record.set("waits", std::int64_t{waits_for_.load()});
  record.set("turn", turn_.load());
  record.set("action", std::int64_t{action_.load()});
  return record;
}

std::chrono::nanoseconds Pulse::waited() const {
  return std::chrono::nanoseconds(waited_.load());
}

Waiting::Waiting(Pulse& pulse, int there)
    : pulse_(pulse), started_(std::chrono::steady_clock::now()) {
  pulse.waits_for(there);
}

Waiting::~Waiting() {
  pulse_.waited(std::chrono::steady_clock::now() - started_);
  pulse_.moves();
}

Link with_pulse(Link link, Pulse& pulse, int there) {
  if (link.sender)
    link.sender =
        std::make_unique<PulsingSender>(std::move(link.sender), pulse, there);
  if (link.receiver)
    link.receiver = std::make_unique<PulsingReceiver>(std::move(link.receiver),
                                                      pulse, there);
  return link;
}

std::unique_ptr<Sender> with_heartbeat(std::unique_ptr<Sender> control,
                                       const Pulse& pulse,
                                       std::chrono::milliseconds period) {
  return std::make_unique<HeartbeatSender>(std::move(control), pulse, period);
}

std::chrono::milliseconds heartbeat_period(Deadline deadline) {
  using std::chrono::milliseconds;
  return std::clamp<milliseconds>(deadline / 8, milliseconds(10),
                                  milliseconds(1000));
}

}  // namespace sluice
