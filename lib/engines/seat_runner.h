#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "lib/base/messages/bell.h"
#include "lib/engines/heartbeat.h"
#include "lib/engines/seat_order.h"
#include "lib/schedules/plan/action.h"
#include "lib/workers/seat.h"

namespace sluice {

/// Does what execute() does, and something of its own before and after it.
using ActionWrapper =
    std::function<void(const Action&, const std::function<void()>& execute)>;

/// Executes a seat's actions, and waits at its ports, on the worker's thread.
class SeatRunner {
 public:
  /// Makes a runner that shows nothing to any heartbeat.
  SeatRunner() = default;
  /// The heartbeat, which must outlive it, shows each action and wait;
  /// `around`, if any, is what actions are executed by.
  explicit SeatRunner(Heartbeat& heartbeat, ActionWrapper around = nullptr);

  /// Orders the seat's actions, from now on, among those of the other seats of
  /// its executor.
  void share(std::shared_ptr<SeatOrder> order) { order_ = std::move(order); }
  /// Begins a grant: the block's next actions are those of the grant.
  void begin(int block, const Grant& grant) const;
  /// No other seat of the executor waits for this one any more: it has failed.
  void fail() const;

  void execute(const Action& action, Seat& seat) const;
  /// Waits as Ports::wait() does, and shows it in the heartbeat.
  bool wait(Seat& seat, const Bell& bell, std::uint64_t heard) const;

 private:
  void perform(const Action& action, Seat& seat) const;

  Heartbeat* heartbeat_ = nullptr;
  ActionWrapper around_ = nullptr;
  std::shared_ptr<SeatOrder> order_ = nullptr;
};

}  // namespace sluice
