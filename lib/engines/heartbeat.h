#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "lib/base/messages/channel.h"
#include "lib/engines/control_codec.h"
#include "lib/schedules/plan/action.h"

namespace sluice {

/// Values for what a worker waits for, where it is no single block: the
/// launcher, whichever neighbour comes first, nothing.
inline constexpr int kLauncher = 0;
inline constexpr int kAnyNeighbour = -2;
inline constexpr int kNobody = -1;

/// Progress of a worker, and what it waits for: its own thread writes it,
/// others read it.
class Heartbeat {
 public:
  /// `on_move`, if any, is called whenever something was done, on the worker's
  /// thread; and by lives().
  explicit Heartbeat(std::function<void()> on_move = nullptr)
      : on_move_(std::move(on_move)) {}

  void begins(const Action& action);
  /// Something was done; the worker waits for nothing now.
  void moves();
  /// Notes that the worker waits for a block, or for one of the above.
  void waits_for(int block);
  /// Calls `on_move` while the worker waits, for then another one is late, and
  /// whoever waits for this one shall not give it up. On any thread, now and
  /// then, beside the worker's.
  void lives() const;
  /// Notes a wait that is over and took so long.
  void waited(std::chrono::nanoseconds time);

  Progress progress() const;
  /// Time that the worker has waited for others, all together.
  std::chrono::nanoseconds waited() const;

 private:
  std::atomic<std::int64_t> moves_ = 0;
  std::atomic<int> waits_for_ = kNobody;
  std::atomic<std::int64_t> turn_ = -1;
  std::atomic<int> action_ = -1;
  std::atomic<std::chrono::nanoseconds::rep> waited_ = 0;
  const std::function<void()> on_move_;
};

/// Shows in the heartbeat, for its lifetime, that the worker waits.
class WaitScope {
 public:
  WaitScope(Heartbeat& heartbeat, int there);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  Heartbeat& heartbeat_;
  const std::chrono::steady_clock::time_point started_;
};

/// Link whose waits show in the heartbeat, which must outlive it.
Link with_waits_shown(Link link, Heartbeat& heartbeat, int there);

/// Sender of the control link that also sends the heartbeat to the launcher
/// every `period`, from a thread of its own: it falls silent only when the
/// whole process does. It calls the heartbeat's lives() as often. The heartbeat
/// must outlive it.
std::unique_ptr<Sender> with_heartbeat(std::unique_ptr<Sender> control,
                                       const Heartbeat& heartbeat,
                                       std::chrono::milliseconds period);

/// Interval of a worker's heartbeats, when it is given up after `deadline`
/// without one.
std::chrono::milliseconds heartbeat_period(Deadline deadline);

}  // namespace sluice
