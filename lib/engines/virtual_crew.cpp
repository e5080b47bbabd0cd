#include "lib/engines/virtual_crew.h"

#include <algorithm>
#include <utility>

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/engines/control.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {
namespace {

/// The caller's intra-op threads are the crew's while it works.
class ThreadCountGuard {
 public:
  explicit ThreadCountGuard(std::int64_t threads)
      : before_(at::get_num_threads()) {
    at::set_num_threads(static_cast<int>(threads));
  }
  ~ThreadCountGuard() { at::set_num_threads(before_); }
  ThreadCountGuard(const ThreadCountGuard&) = delete;
  ThreadCountGuard& operator=(const ThreadCountGuard&) = delete;

 private:
  int before_;
};

}  // namespace

VirtualCrew::VirtualCrew(Seats seats, VirtualParts parts, CrewEvents events)
    : seats_(std::move(seats)),
      parts_(std::move(parts)),
      events_(std::move(events)),
      simulation_(parts_.plans, parts_.costs, parts_.capacities),
      book_(seats_.size(), 0),
      places_(seats_.size()),
      seconds_(parts_.saved.latest()) {}

void VirtualCrew::give(const Grant& grant, std::span<const Batch> batches) {
  for (const Batch& batch : batches) parts_.fed->put(batch);
  if (book_.given() == 0) begin(grant);
  book_.give(grant, {});
}

/// Begins with the batches in flight, which seats say of blocks that run free:
/// there they are no function of the turn.
void VirtualCrew::begin(const Grant& first) {
  std::vector<Ledger> ledgers;
  for (std::size_t k = 0; k < seats_.size(); ++k) {
    seats_[k]->start(first);
    places_[k].pipe = first.first_batch;
    ledgers.push_back(seats_[k]->ledger());
  }
  if (runs_free(parts_.plans.at(0)))
    simulation_.begin_free_at(first.phase, ledgers, parts_.saved);
  else
    simulation_.begin_at(first.phase, first.first_turn, first.first_batch,
                         parts_.saved);
}

std::optional<NamedTensors> VirtualCrew::weights() const {
  NamedTensors all;
  for (const auto& seat : seats_)
    for (auto& named : seat->weights()) all.push_back(std::move(named));
  return all;
}

/// A pipe that was drained starts anew.
void VirtualCrew::take_up(int block, const Grant& grant) {
  Place& place = by_block(places_, block);
  if (std::exchange(place.pipe, grant.first_batch) != grant.first_batch) {
    by_block(seats_, block)->start(grant);
    simulation_.begin_pipe(block, grant);
  }
  // A block that had to wait for its grant has done nothing meanwhile.
  if (std::exchange(place.waited, false)) simulation_.hold(block, seconds_);
  simulation_.give(block, grant);
}

/// An idle block has carried out its grant, and takes up the next, if it is
/// there. Grants without actions for it are passed over. Returns whether that
/// changed anything.
bool VirtualCrew::refill(int block) {
  Place& place = by_block(places_, block);
  bool changed = false;
  while (simulation_.idle(block)) {
    if (place.at_grant) {
      place.at_grant = false;
      changed = true;
      const std::size_t n = book_.reach(block);
      if (events_.reached) events_.reached(block, n);
    }
    if (book_.reached(block) == book_.given()) break;
    take_up(block, book_.at(book_.reached(block)).grant);
    place.at_grant = changed = true;
  }
  return changed;
}

bool VirtualCrew::refill() {
  bool changed = false;
  for (int block = 1; block <= std::ssize(seats_); ++block)
    changed = refill(block) || changed;
  return changed;
}

void VirtualCrew::wait() {
  const c10::AutoGradMode gradients(true);
  const ThreadCountGuard threads(parts_.threads);
  const std::size_t before = book_.all_reached();
  refill();
  // No progress in a round: every block that isn't at its grant has waited.
  if (book_.all_reached() == before)
    for (Place& place : places_) place.waited = place.waited || !place.at_grant;
  while (book_.all_reached() == before) {
    if (book_.all_done()) return;
    if (const std::optional<TimedAction> timed = simulation_.next()) {
      execute(*timed);
      if (simulation_.idle(timed->seat)) refill();
    } else if (!refill()) {
      // A block may also be done because it sees that no more batches come.
      throw UserError("the run waits for itself: {}", simulation_.stuck());
    }
  }
  if (book_.all_done() && book_.is_over(1))
    for (const auto& seat : seats_) seat->finish();
}

void VirtualCrew::execute(TimedAction timed) {
  try {
    by_block(seats_, timed.seat)->execute(timed.action);
  } catch (const std::exception& error) {
    throw UserError("{}",
                    text_of(name_of_seat(parts_.plans.front(), timed.seat),
                            text_of(error)));
  }
  if (timed.action.op == Op::settle)
    timed.action.arrived = by_block(seats_, timed.seat)->served_as();
  const auto& dropped = timed.action.dropped;
  if (timed.action.op == Op::settle)
    by_block(seats_, timed.seat)->left_out(dropped.size());
  else if (!dropped.empty()) {
    by_block(seats_, timed.seat)->ports().count_dropped(dropped.size());
    by_block(seats_, timed.seat + 1)->ports().skip(dropped);
  }
  seconds_ = std::max(seconds_, timed.end);
  if (parts_.watch) parts_.watch(timed);
}

}  // namespace sluice
