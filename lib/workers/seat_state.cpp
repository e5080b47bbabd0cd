// What a seat keeps over a checkpoint, and what it reports at its end.
#include <algorithm>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/checkpoints/saved_deals.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/memory/allocator.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/gpu/current_device.h"
#include "lib/tensors/precision.h"
#include "lib/workers/seat.h"

namespace sluice {

std::string Seat::name_in_state(std::string_view what) const {
  return fmt::format("{}.{}", what, block());
}

NamedTensors Seat::state() const {
  NamedTensors all = trained_.state();
  const std::string me = name_in_state("workers");
  save_number(version_, me + ".weight_version", all);
  save_number(first_batch_, me + ".first_batch", all);
  save_number(phase_, me + ".phase", all);
  save_number(block_.first_layer(), me + ".first_layer", all);
  save_number(number_of(plan().weights), me + ".weights", all);
  if (plan().free.in_flight > 0)
    save_number(plan().free.in_flight, me + ".in_flight", all);
  if (plan().micro_batches.by_arrival)
    save_number(ledger_.updates(), me + ".updates", all);
  view_->save(name_in_state("views"), all);
  held_.save(block(), *view_, all);
  sent_down_.save(name_in_state("sent"), all);
  for (const auto& [counter, counts] : log_.counts())
    for (const auto& [value, times] : counts)
      save_number(times,
                  fmt::format("{}.{}.{}.times", name_in_state("staleness"),
                              counter, value),
                  all);
  window_.save(name_in_state("accumulated"), all);
  if (!known_late_.empty())
    save_list({at::tensor(known_late_, at::kLong)}, me + ".known_late", all);
  save_deals(plan().micro_batches.deals, me, all);
  save_counts(seat_names(run_plan()).counts, me, all);
  if (evaluated_.are_others()) save_number(1, me + ".own_weights", all);
  for (auto& named : replicas_.state()) all.push_back(std::move(named));
  coded_below_.save(all);
  coded_above_.save(all);
  if (average_)
    for (auto& named : average_->state()) all.push_back(std::move(named));
  if (sources_.training)
    for (auto& named : sources_.training->state())
      all.push_back(std::move(named));
  return all;
}

void Seat::restore(const NamedTensors& weights, const NamedTensors& state,
                   std::string_view source) {
  trained_.restore(weights, state, source);
  const SavedState saved(state, source);
  const std::string me = name_in_state("workers");
  // A checkpoint of other replicas: these begin with the weights that those
  // agreed on.
  const Deals& deals = plan().micro_batches.deals;
  if (deals_in(saved, me).replicas == deals.replicas &&
      counts_in(saved, me) == seat_names(run_plan()).counts) {
    replicas_.restore(state, source);
    coded_below_.restore(state);
    coded_above_.restore(state);
  }
  if (average_) average_->restore(state, source);
  if (saved.has(me + ".phase")) enter(saved.number(me + ".phase"), 0);
  version_ = saved.number(me + ".weight_version");
  const PrecisionScope precision(settings_.options.precision, device().type());
  view_->restore(name_in_state("views"), saved);
  held_.restore(block(), saved, plan(), device(), *view_,
                [&](std::int64_t batch) { return pass_for(batch, true); });
  sent_down_.restore(name_in_state("sent"), saved, sent_in(saved), device());
  window_.restore(name_in_state("accumulated"), saved, device());
  restore_known_late(saved);
  restore_counts(saved);
  if (saved.has(me + ".updates"))
    ledger_.set_updates(saved.number(me + ".updates"));
  if (sources_.training) sources_.training->restore(state, source);
}

/// Batches that were under way to the block below: of a free run those that it
/// had not taken when it was saved.
std::vector<std::int64_t> Seat::sent_in(const SavedState& saved) const {
  std::vector<std::int64_t> batches =
      saved.numbers_below(name_in_state("sent"));
  if (plan().free.in_flight == 0) return batches;
  const std::vector<std::int64_t> awaited = awaited_below(saved);
  std::erase_if(batches, [&](std::int64_t batch) {
    return !std::binary_search(awaited.begin(), awaited.end(), batch);
  });
  return batches;
}

/// Batches whose gradients the block below had not taken when it was saved.
std::vector<std::int64_t> Seat::awaited_below(const SavedState& saved) const {
  if (block() == 1) return {};
  const int below = block() - 1;
  const auto batches = [&](const char* what) {
    return saved.numbers_below(fmt::format("{}.{}", what, below));
  };
  std::vector<std::int64_t> awaited = batches("flights");
  if (by_block(run_plan().blocks, block() - 1).gradients.from_above)
    return awaited;
  const std::vector<std::int64_t> lessons = batches("lessons");
  awaited.insert(awaited.begin(), lessons.begin(), lessons.end());
  return awaited;
}

/// Staleness of the batches of a window that was saved before its push to the
/// centre.
void Seat::restore_known_late(const SavedState& saved) {
  known_late_.clear();
  const std::string name = name_in_state("workers") + ".known_late";
  if (!saved.has(name + ".count")) return;
  const at::Tensor known = saved.list(name).at(0).contiguous();
  const auto* first = known.const_data_ptr<std::int64_t>();
  known_late_.assign(first, first + known.numel());
}

void Seat::restore_counts(const SavedState& saved) {
  SeatLog::Counts counts;
  for (const char* counter : {"d_batch", "d_upd"}) {
    const std::string name =
        fmt::format("{}.{}", name_in_state("staleness"), counter);
    for (const std::int64_t value : saved.numbers_below(name))
      counts[counter][value] =
          saved.number(fmt::format("{}.{}.times", name, value));
  }
  log_.restore(std::move(counts));
}

void Seat::start(const Grant& first) {
  const CurrentDevice on(device());
  replicas_.begin(version_);
  if (average_) average_->begin(trained_.tensors());
  enter(first.phase, first.first_turn);
  last_turn_ = first.first_turn - 1;
  if (plan().free.in_flight > 0) return start_free(first);
  const std::map<std::int64_t, DownPayload> sent = sent_down_.take();
  for (const Transfer& transfer :
       in_flight(run_plan(), first.first_turn, first.first_batch))
    if (transfer.from == number_)
      send_down_again(transfer.batch, sent.at(transfer.batch));
  first_batch_ = first.first_batch;
  ledger_ = {};
  ledger_.begin(plan(), first.first_turn, first_batch_);
  held_.check_against(ledger_, block());
  // A window that was incomplete when the pipe was drained is not applied.
  if (window_.first_turn < first_batch_) {
    window_ = {};
    known_late_.clear();
  }
}

/// Starts from the batches that were restored: in a block that runs free these
/// are no function of the turn.
void Seat::start_free(const Grant& first) {
  first_batch_ = first.first_batch;
  for (const auto& [batch, down] : sent_down_.take())
    send_down_again(batch, down);
  const std::int64_t updates = ledger_.updates();
  ledger_ = {};
  ledger_.set_updates(updates);
  held_.mark_in(ledger_);
  for (std::int64_t i = 0; i < window_.batches; ++i)
    ledger_.set(Mark::summed, window_.first_turn + i);
}

/// Notes the memory in flight when it is most: after a forward.
void Seat::note_memory() {
  MemoryUse now = held_.memory(*view_, 0);
  now.history += ends().upper->kept_bytes() + sent_down_.bytes() +
                 coded_below_.bytes() + coded_above_.bytes();
  now.queue = ports_.waiting_bytes();
  memory_use_.raise_to(now);
}

records::Block Seat::costs() const {
  const SpentTime& spent = clock_.spent();
  records::Block block{
      .block = this->block(),
      .replica = replica_of(plan()),
      .parameters = trained_.elements(),
      .forward_s = spent.of(Op::forward),
      .backward_s = spent.of(Op::backward) + spent.of(Op::backward_input) +
                    spent.of(Op::backward_weights),
      .update_s = spent.of(Op::update),
      .learn_s = spent.of(Op::learn) + spent.of(Op::learn_input),
      .evaluate_s = spent.of(Op::evaluate),
      .waiting_s = spent.waiting,
      .memory = {.weights_bytes = bytes_of(values_of(weights())),
                 .optimizer_bytes = bytes_of(values_of(trained_.state())),
                 .stash_bytes = memory_use_.stash,
                 .history_bytes = memory_use_.history,
                 .queue_bytes = memory_use_.queue,
                 .centre_bytes = replicas_.centre_bytes()},
      .compressed_bytes = replicas_.compressed_bytes()};
  if (plan().exchange.quorum.is_there()) {
    block.late_gradients = late_;
    block.turns_left_out = left_out_;
    block.merges_without_it = absent_;
    block.awaited_s = replicas_.awaited();
  }
  if (memory_ && allocator_installed()) {
    block.memory.graph_bytes = memory_use_.graph;
    block.memory.peak_bytes = static_cast<std::int64_t>(memory_->peak_bytes());
  }
  return block;
}

void Seat::finish() {
  const CurrentDevice on(device());
  clock_.collect();
  log_.settle();
  log_.write(costs());
  log_.staleness();
  if (plan().free.inbox_above.drops()) log_.dropped(ports_.dropped());
  // What was learned after the last update. The record is about the turn that
  // would be next, so that a resume from before it forgets it.
  const std::int64_t next = last_turn_ + 1;
  if (settings_.options.hashes)
    log_.hashed({.batch = plan().micro_batches.first_of(next), .turn = next},
                {}, weights());
  replicas_.finish();
  ports_.close();
}

}  // namespace sluice
