#include "lib/workers/seat_state.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/checkpoints/saved_deals.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

std::string name_in_state(const SeatCore& seat, std::string_view what) {
  return fmt::format("{}.{}", what, seat.block.index());
}

void append_state(NamedTensors more, NamedTensors& all) {
  for (auto& named : more) all.push_back(std::move(named));
}

void save_counts_of_log(const SeatCore& seat, NamedTensors& all) {
  for (const auto& [counter, counts] : seat.log.counts())
    for (const auto& [value, times] : counts)
      save_number(times,
                  fmt::format("{}.{}.{}.times",
                              name_in_state(seat, "staleness"), counter, value),
                  all);
}

void restore_counts_of_log(SeatCore& seat, const SavedState& saved) {
  SeatLog::Counts counts;
  for (const char* counter : {"d_batch", "d_upd"}) {
    const std::string name =
        fmt::format("{}.{}", name_in_state(seat, "staleness"), counter);
    for (const std::int64_t value : saved.numbers_below(name))
      counts[counter][value] =
          saved.number(fmt::format("{}.{}.times", name, value));
  }
  seat.log.restore(std::move(counts));
}

/// Starts from the batches that were restored: in a block that runs free these
/// are no function of the turn.
void start_free(SeatCore& seat) {
  seat.messages.send_all_again();
  const std::int64_t updates = seat.ledger.updates();
  seat.ledger = {};
  seat.ledger.set_updates(updates);
  seat.held.mark_in(seat.ledger);
  for (std::int64_t i = 0; i < seat.window.batches; ++i)
    seat.ledger.set(Mark::summed, seat.window.first_turn + i);
}

/// Batches whose gradients are under way below when a grant begins.
std::vector<std::int64_t> under_way(const SeatCore& seat, const Grant& first) {
  std::vector<std::int64_t> batches;
  for (const Transfer& transfer :
       in_flight(seat.run_plan(), first.first_turn, first.first_batch))
    if (transfer.from == seat.place.seat()) batches.push_back(transfer.batch);
  return batches;
}

}  // namespace

NamedTensors state_of(const SeatCore& seat) {
  NamedTensors all = seat.trained.state();
  const BlockPlan& plan = seat.plan();
  const std::string me = name_in_state(seat, "workers");
  save_number(seat.progress.version, me + ".weight_version", all);
  save_number(seat.progress.first_batch, me + ".first_batch", all);
  save_number(seat.place.phase(), me + ".phase", all);
  save_number(seat.block.first_layer(), me + ".first_layer", all);
  save_number(number_of(plan.weights), me + ".weights", all);
  if (plan.free.in_flight > 0)
    save_number(plan.free.in_flight, me + ".in_flight", all);
  if (plan.micro_batches.by_arrival)
    save_number(seat.ledger.updates(), me + ".updates", all);
  seat.view->save(name_in_state(seat, "views"), all);
  seat.held.save(seat.block.index(), *seat.view, all);
  seat.messages.save_sent(all);
  save_counts_of_log(seat, all);
  seat.window.save(name_in_state(seat, "accumulated"), all);
  seat.late.save(me, all);
  save_deals(plan.micro_batches.deals, me, all);
  save_counts(seat_names(seat.run_plan()).counts, me, all);
  if (plan.micro_batches.by_arrival)
    if (const auto batches = seat.replicas.centre_batches())
      save_dealt(*batches, me, all);
  if (seat.evaluated.are_others()) save_number(1, me + ".own_weights", all);
  append_state(seat.replicas.state(), all);
  seat.messages.save_codecs(all);
  append_state(seat.evaluated.average_state(), all);
  seat.messages.save_source(all);
  return all;
}

void restore_seat(SeatCore& seat, const NamedTensors& weights,
                  const NamedTensors& state, std::string_view source) {
  seat.trained.restore(weights, state, source);
  const SavedState saved(state, source);
  const std::string me = name_in_state(seat, "workers");
  // A checkpoint of other replicas: these begin with the weights that those
  // agreed on.
  const Deals& deals = seat.plan().micro_batches.deals;
  if (deals_in(saved, me).replicas == deals.replicas &&
      counts_in(saved, me) == seat_names(seat.run_plan()).counts) {
    seat.replicas.restore(state, source);
    seat.replicas.restore_centre_batches(dealt_in(saved, me));
    seat.messages.restore_codecs(state);
  }
  seat.evaluated.restore_average(state, source);
  if (saved.has(me + ".phase")) seat.enter(saved.number(me + ".phase"), 0);
  seat.progress.version = saved.number(me + ".weight_version");
  const c10::Device& device = seat.device();
  const PrecisionScope precision(seat.settings.options.precision,
                                 device.type());
  seat.view->restore(name_in_state(seat, "views"), saved);
  seat.held.restore(
      seat.block.index(), saved, seat.plan(), device, *seat.view,
      [&](std::int64_t batch) { return seat.pass_for(batch, true); });
  seat.messages.restore_sent(saved);
  seat.window.restore(name_in_state(seat, "accumulated"), saved, device);
  seat.late.restore(me, saved);
  restore_counts_of_log(seat, saved);
  if (saved.has(me + ".updates"))
    seat.ledger.set_updates(saved.number(me + ".updates"));
  seat.messages.restore_source(state, source);
}

void start_seat(SeatCore& seat, const Grant& first) {
  seat.replicas.begin(seat.progress.version);
  seat.evaluated.begin_average();
  seat.enter(first.phase, first.first_turn);
  seat.progress.last_turn = first.first_turn - 1;
  seat.progress.first_batch = first.first_batch;
  if (seat.plan().free.in_flight > 0) return start_free(seat);
  seat.messages.send_again(under_way(seat, first));
  seat.ledger = {};
  seat.ledger.begin(seat.plan(), first.first_turn, first.first_batch);
  seat.held.check_against(seat.ledger, seat.block.index());
  // A window that was incomplete when the pipe was drained is not applied.
  if (seat.window.first_turn < first.first_batch) {
    seat.window = {};
    seat.late.forget_kept();
  }
}

}  // namespace sluice
