#include "lib/engines/free_loop.h"

#include <cstdint>
#include <utility>

#include "lib/base/error.h"

namespace sluice {

FreeLoop::FreeLoop(const Plans& plans, Worker& worker, Executor executor)
    : worker_(worker),
      chooser_(phases_of(plans, worker.block())),
      executor_(std::move(executor)) {
  worker_.ports().run_free(bell_);
}

std::optional<Action> FreeLoop::ready_choice() {
  if (const auto next = worker_.ports().next_from_below()) chooser_.see(*next);
  for (Action& choice : chooser_.choices(worker_.ledger()))
    if (worker_.is_ready(choice)) return std::move(choice);
  return std::nullopt;
}

void FreeLoop::execute(Action action) {
  executor_.execute(action, worker_);
  action.dropped = worker_.ports().take_dropped();
  chooser_.did(action);
  done_ += (done_.empty() ? "" : " ") + to_text(action);
}

std::string FreeLoop::carry_out(const Grant& grant) {
  SLUICE_CHECK(chooser_.is_done(worker_.ledger()),
               "block {} is given turns before it has done its last",
               worker_.block());
  chooser_.give(grant);
  while (!chooser_.is_done(worker_.ledger())) {
    const std::uint64_t heard = bell_->rung();
    worker_.ports().flush();
    if (std::optional<Action> choice = ready_choice())
      execute(std::move(*choice));
    else if (!chooser_.is_done(worker_.ledger()) &&
             !executor_.wait(worker_, *bell_, heard))
      execute(
          chooser_.choices(worker_.ledger()).front());  // it says who is silent
  }
  return std::exchange(done_, {});
}

}  // namespace sluice
