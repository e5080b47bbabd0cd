#include "lib/engines/free_loop.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/error.h"

namespace sluice {

FreeLoop::FreeLoop(const Plans& plans, Seat& seat, SeatRunner runner,
                   Report report)
    : seat_(seat),
      chooser_(phases_of(plans, seat.number())),
      runner_(std::move(runner)),
      report_(std::move(report)) {
  seat_.ports().run_free(bell_);
}

std::optional<Action> FreeLoop::ready_choice() {
  see_below();
  std::vector<Action> choices = chooser_.choices(seat_.ledger());
  std::size_t first = choices.size();
  SteadyTime came = {};
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (!seat_.is_ready(choices[i])) continue;
    if (!chooser_.goes_by_arrival()) return dealt(choices[i]);
    const SteadyTime its = arrival_of(choices[i]);
    if (first < choices.size() && its >= came) continue;
    came = its;
    first = i;
  }
  if (first == choices.size()) return std::nullopt;
  return dealt(choices[first]);
}

/// The choice, where it is a forward with the batch that a dealer gives for it;
/// nothing: all are dealt.
std::optional<Action> FreeLoop::dealt(const Action& choice) {
  if (choice.op != Op::forward || !seat_.is_dealt_to()) return choice;
  const std::optional<std::int64_t> batch = seat_.deal(grant_);
  chooser_.see_deal(batch);
  if (!batch) {
    pass_end_on(chooser_.next());
    return ready_choice();
  }
  return chooser_.choices(seat_.ledger()).back();
}

void FreeLoop::see_below() {
  while (const auto next = seat_.ports().next_from_below()) {
    chooser_.see(*next);
    if (next->kind != MessageKind::reached) return;
    seat_.ports().take_end();
    pass_end_on(next->batch);
  }
}

void FreeLoop::pass_end_on(std::int64_t end) {
  if (seat_.ports().above().sender) end_ = end;
}

/// Says what is owed to the block above, if that has room.
bool FreeLoop::says_end() {
  if (!end_ || !seat_.ports().has_room_for_end()) return false;
  seat_.ports().send_end(*std::exchange(end_, std::nullopt));
  return true;
}

SteadyTime FreeLoop::arrival_of(const Action& choice) const {
  if (seat_.block() == 1 && choice.op == Op::forward)
    return admissions_.next(chooser_.room(seat_.ledger()));
  return seat_.arrival_of(choice);
}

/// Whether another worker sees that the action is done.
bool FreeLoop::is_seen(const Action& action) const {
  if (action.op == Op::exchange) return true;
  const Ports& ports = seat_.ports();
  return (action.op == Op::forward && ports.above().sender) ||
         (action.op == Op::backward && ports.below().sender);
}

void FreeLoop::report(const Action& action) {
  note(action);
  report_(std::exchange(done_, {}));
}

void FreeLoop::note(const Action& action) {
  done_ += (done_.empty() ? "" : " ") + to_text(action);
}

void FreeLoop::execute(Action action, bool is_ready) {
  const bool is_reported = is_ready && report_ && is_seen(action);
  // The centre says of one that is lost what had come to it by then.
  if (is_reported) report(action);
  runner_.execute(action, seat_);
  action.dropped = seat_.ports().take_dropped();
  if (action.op == Op::settle) {
    action.arrived = seat_.served_as();
    action.dropped = chooser_.behind(seat_.merged_turn());
    seat_.left_out(action.dropped.size());
  }
  chooser_.did(action);
  admissions_.did(action, chooser_.room(seat_.ledger()),
                  std::chrono::steady_clock::now());
  if (!is_reported) note(action);
}

/// Waits for the neighbour once more, which throws with its name.
void FreeLoop::name_the_silent() {
  if (end_)
    seat_.ports().send_end(*std::exchange(end_, std::nullopt));
  else
    execute(chooser_.choices(seat_.ledger()).front(), false);
}

std::string FreeLoop::carry_out(const Grant& grant) {
  SLUICE_CHECK(chooser_.is_done(seat_.ledger()),
               "block {} is given turns before it has done its last",
               seat_.block());
  if (!std::exchange(has_begun_, true))
    chooser_.begin_after(seat_.ledger().updates());
  chooser_.give(grant);
  grant_ = grant;
  while (!chooser_.is_done(seat_.ledger()) || end_) {
    const std::uint64_t heard = bell_->rung();
    seat_.ports().flush();
    if (says_end()) continue;
    std::optional<Action> choice = ready_choice();
    if (choice)
      execute(std::move(*choice));
    else if (says_end())
      continue;
    else if (chooser_.is_done(seat_.ledger()) && !end_)
      break;
    else if (!runner_.wait(seat_, *bell_, heard))
      name_the_silent();
  }
  return std::exchange(done_, {});
}

}  // namespace sluice
