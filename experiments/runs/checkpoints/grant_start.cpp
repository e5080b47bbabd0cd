#include "experiments/runs/checkpoints/grant_start.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "experiments/runs/checkpoints/repartition.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/saved_deals.h"
#include "lib/schedules/plan/plan.h"
#include "lib/weights/weight_view.h"

namespace sluice {
namespace {

/// Batches before it were applied by all blocks that were saved.
std::int64_t first_batch_in(const SavedState& saved) {
  std::int64_t first_batch = 0;
  for (const std::int64_t block : saved.numbers_below("workers")) {
    const std::string name = fmt::format("workers.{}.first_batch", block);
    if (saved.has(name))
      first_batch = std::max(first_batch, saved.number(name));
  }
  return first_batch;
}

/// Whether the plan's block left such batches in flight: its schedule, its
/// delay, and what its backward needs, are those of the block that was saved.
bool fits_in_flight(const BlockPlan& plan, const SavedState& saved) {
  const auto count = [&](const char* of) {
    return std::ssize(
        saved.numbers_below(fmt::format("{}.{}", of, plan.block)));
  };
  const std::string me = fmt::format("workers.{}.", plan.block);
  const bool is_free = plan.free.in_flight > 0;
  if (saved.has(me + "in_flight") != is_free || !saved.has(me + "weights") ||
      saved.number(me + "weights") != number_of(plan.weights))
    return false;
  if (is_free) return count("flights") + count("lessons") < plan.free.in_flight;
  const std::int64_t in_turn = plan.micro_batches.in_turn();
  return count("flights") <= plan.delay * in_turn &&
         count("lessons") <= (turns_in_flight(plan) - plan.delay) * in_turn;
}

}  // namespace

PendingBatches in_flight_in(const std::string& checkpoint) {
  const SavedState saved(load_state(checkpoint), checkpoint);
  return in_flight_in(saved);
}

PendingBatches in_flight_in(const SavedState& saved) {
  PendingBatches found;
  std::set<std::int64_t> batches;
  for (const char* of : {"flights", "lessons"})
    for (const std::int64_t block : saved.numbers_below(of))
      for (const std::int64_t batch :
           saved.numbers_below(fmt::format("{}.{}", of, block)))
        batches.insert(batch);
  found.batches = std::ssize(batches);
  const std::int64_t first_batch = first_batch_in(saved);
  for (const std::int64_t block : saved.numbers_below("accumulated")) {
    const std::string name = fmt::format("accumulated.{}.", block);
    if (saved.number(name + "first_batch") >= first_batch)
      found.accumulated =
          std::max(found.accumulated, saved.number(name + "batches"));
  }
  return found;
}

GrantStart continued_from(const Experiment& experiment,
                          const std::string& checkpoint) {
  const SavedState saved(load_state(checkpoint), checkpoint);
  GrantStart from{.first_batch = first_batch_in(saved)};
  if (saved.has("workers.1.phase"))
    from.phase = saved.number("workers.1.phase");
  if (from.phase >= std::ssize(experiment.plans))
    throw UserError(
        "{}: was saved in phase {} of its timetable, which has {} "
        "here",
        checkpoint, from.phase, experiment.plans.size());
  const bool are_same_replicas =
      deals_in(saved, "workers.1").replicas == experiment.replicas.count &&
      counts_in(saved, "workers.1") == experiment.replicas.counts;
  const PendingBatches in_flight = in_flight_in(saved);
  const bool is_same_cut = is_cut_so(experiment, cut_of(saved));
  const RunPlan& plan = experiment.plans[static_cast<std::size_t>(from.phase)];
  const bool fits = is_same_cut && are_same_replicas &&
                    std::all_of(plan.blocks.begin(), plan.blocks.end(),
                                [&](const BlockPlan& block) {
                                  return fits_in_flight(block, saved);
                                });
  if (in_flight.batches > 0 && !fits)
    throw UserError(
        "{}: {} of its batches are in flight between the blocks of its own "
        "cut, policies and replicas; continue with those, or apply the batches "
        "first: sluice checkpoint RUN --drain",
        checkpoint, in_flight.batches);
  if (in_flight.accumulated > 0 && !(is_same_cut && are_same_replicas))
    throw UserError(
        "{}: its blocks have accumulated {} batches towards an update, and "
        "another cut, or another number of replicas, can't take them over; "
        "continue with its own to a turn where a window of accumulate.batches "
        "is full",
        checkpoint, in_flight.accumulated);
  return from;
}

}  // namespace sluice
