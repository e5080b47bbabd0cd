#include "lib/engines/free_loop.h"

#include <cstdint>
#include <utility>

#include "lib/base/error.h"

namespace sluice {

FreeLoop::FreeLoop(const Plans& plans, Seat& seat, SeatRunner runner)
    : seat_(seat),
      chooser_(phases_of(plans, seat.block())),
      runner_(std::move(runner)) {
  seat_.ports().run_free(bell_);
}

std::optional<Action> FreeLoop::ready_choice() {
  if (const auto next = seat_.ports().next_from_below()) chooser_.see(*next);
  for (Action& choice : chooser_.choices(seat_.ledger()))
    if (seat_.is_ready(choice)) return std::move(choice);
  return std::nullopt;
}

void FreeLoop::execute(Action action) {
  runner_.execute(action, seat_);
  action.dropped = seat_.ports().take_dropped();
  chooser_.did(action);
  done_ += (done_.empty() ? "" : " ") + to_text(action);
}

std::string FreeLoop::carry_out(const Grant& grant) {
  SLUICE_CHECK(chooser_.is_done(seat_.ledger()),
               "block {} is given turns before it has done its last",
               seat_.block());
  chooser_.give(grant);
  while (!chooser_.is_done(seat_.ledger())) {
    const std::uint64_t heard = bell_->rung();
    seat_.ports().flush();
    if (std::optional<Action> choice = ready_choice())
      execute(std::move(*choice));
    else if (!chooser_.is_done(seat_.ledger()) &&
             !runner_.wait(seat_, *bell_, heard))
      execute(
          chooser_.choices(seat_.ledger()).front());  // names the silent peer
  }
  return std::exchange(done_, {});
}

}  // namespace sluice
