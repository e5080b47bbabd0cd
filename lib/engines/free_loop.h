#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/messages/bell.h"
#include "lib/engines/seat_runner.h"
#include "lib/metrics/time_spent.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/admissions.h"
#include "lib/schedules/plan/plan.h"
#include "lib/workers/seat.h"

namespace sluice {

/// A block that runs free on a thread of its own: does of its choices the first
/// that is ready in real time, and sleeps while none is.
class FreeLoop {
 public:
  /// Gets actions, as to_text() writes them, with a blank between. Others see
  /// the last one, which is not yet done.
  using Report = std::function<void(std::string actions)>;

  /// The seat has not begun, and outlives this object. report: gets what is
  /// left out of the result of carry_out() then; may be empty.
  FreeLoop(const Plans& plans, Seat& seat, SeatRunner runner = {},
           Report report = nullptr);

  /// Returns the actions that it has done, as to_text() writes them, a blank
  /// between. Throws what the seat throws; a neighbour that is silent is given
  /// up after twice the time that a channel waits, which is for ever where the
  /// launcher supervises it (kSupervisedDeadline).
  std::string carry_out(const Grant& grant);

 private:
  std::optional<Action> ready_choice();
  std::optional<Action> dealt(const Action& choice);
  void see_below();
  void pass_end_on(std::int64_t end);
  bool says_end();
  void name_the_silent();
  SteadyTime arrival_of(const Action& choice) const;
  void execute(Action action, bool is_ready = true);
  bool is_seen(const Action& action) const;
  void note(const Action& action);
  void report(const Action& action);

  Seat& seat_;
  FreeRunning chooser_;
  Admissions<SteadyTime> admissions_;
  const SeatRunner runner_;
  const Report report_;
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  bool has_begun_ = false;
  Grant grant_ = {};
  std::optional<std::int64_t> end_;  // to be said to the block above
  std::string done_;
};

}  // namespace sluice
