#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "lib/base/bell.h"
#include "lib/engines/pulse.h"
#include "lib/engines/seat_order.h"
#include "lib/schedules/action.h"
#include "lib/workers/worker.h"

namespace sluice {

/// Does what execute() does, and something of its own before and after it.
using Around =
    std::function<void(const Action&, const std::function<void()>& execute)>;

/// How a worker's loop executes actions and waits. Its thread is the worker's.
class Executor {
 public:
  /// Nobody is told.
  Executor() = default;
  /// The pulse, which must outlive it, shows each action and wait; `around`, if
  /// any, is what actions are executed by.
  explicit Executor(Pulse& pulse, Around around = nullptr);

  /// From now on the block takes turns with the others of its executor.
  void share(std::shared_ptr<SeatOrder> order) { order_ = std::move(order); }
  /// The next actions of the block are those of the grant.
  void begin(int block, const Grant& grant) const;
  /// No others wait for this block any more.
  void fail() const;

  void execute(const Action& action, Worker& worker) const;
  /// Ports::wait().
  bool wait(Worker& worker, const Bell& bell, std::uint64_t heard) const;

 private:
  void perform(const Action& action, Worker& worker) const;

  Pulse* pulse_ = nullptr;
  Around around_ = nullptr;
  std::shared_ptr<SeatOrder> order_ = nullptr;
};

}  // namespace sluice
