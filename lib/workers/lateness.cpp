#include "lib/workers/lateness.h"

#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {

void Lateness::check(const Action& backward) const {
  const std::int64_t staleness = place_.plan().staleness_of(backward);
  if (staleness <= max_staleness_) return;
  throw UserError(
      "block {}: in turn {} it would apply the gradient of batch {}, {} "
      "batches old; max_staleness is {}",
      place_.plan().block, backward.turn, backward.batch, staleness,
      max_staleness_);
}

void Lateness::report(const Action& action, std::int64_t in_updates,
                      std::int64_t in_steps, std::int64_t batches) {
  log_.late_by(in_steps, batches);
  if (in_steps == in_updates || in_steps <= max_staleness_) return;
  throw UserError(
      "block {}: in turn {} it would apply the gradient of batch {}, {} steps "
      "of the other replicas old; max_staleness is {}",
      place_.plan().block, action.turn, action.batch, in_steps, max_staleness_);
}

void Lateness::visited(const Action& settle, const CentreVisit& visit) {
  if (visit.merged) {
    absent_ += visit.merged->absent;
    if (visit.merged->is_late) ++late_;
    if (place_.plan().exchange.quorum.drops_late)
      merged_turn_ = visit.merged->turn;
  } else {
    SLUICE_CHECK(settle.arrived == 0 || settle.arrived == visit.place,
                 "{} ({}) was served as number {}", place_.name(),
                 to_text(settle), visit.place);
  }
  if (!visit.is_over) return;
  const bool is_dropped = visit.merged && visit.merged->is_late;
  for (const std::int64_t kept : std::exchange(kept_, {}))
    if (!is_dropped) report(settle, kept, kept + visit.missed);
}

void Lateness::add_to(records::Block& record) const {
  record.late_gradients = late_;
  record.turns_left_out = left_out_;
  record.merges_without_it = absent_;
}

void Lateness::save(const std::string& name, NamedTensors& all) const {
  if (!kept_.empty())
    save_list({at::tensor(kept_, at::kLong)}, name + ".known_late", all);
}

void Lateness::restore(const std::string& name, const SavedState& saved) {
  kept_.clear();
  if (!saved.has(name + ".known_late.count")) return;
  const at::Tensor kept = saved.list(name + ".known_late").at(0).contiguous();
  const auto* first = kept.const_data_ptr<std::int64_t>();
  kept_.assign(first, first + kept.numel());
}

}  // namespace sluice
