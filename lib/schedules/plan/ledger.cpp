#include "lib/schedules/plan/ledger.h"

#include <algorithm>

#include <fmt/format.h>

#include "lib/schedules/plan/op_table.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {
namespace {

/// Name of the op that leaves a mark.
std::string_view giver_of(Mark mark) {
  switch (mark) {
    case Mark::summed:
    case Mark::lesson:
      return name_of(Op::backward);
    case Mark::halved:
      return name_of(Op::backward_input);
    case Mark::published:
      return name_of(Op::exchange);
    default:
      return name_of(Op::forward);
  }
}

}  // namespace

void Ledger::begin(const BlockPlan& plan, std::int64_t turn,
                   std::int64_t first_batch) {
  const MicroBatches& cut = plan.micro_batches;
  const auto mark = [&](Mark as, std::int64_t turns_ago, std::int64_t end) {
    for (std::int64_t each = std::max(first_batch, turn - turns_ago);
         each < end; ++each)
      for (std::int64_t i = 0; i < cut.batches_in(each); ++i)
        marked(as).insert({cut.batch_of(each, i), 0});
  };
  mark(Mark::lesson, plan.lower.learn_delay, turn - plan.delay);
  mark(Mark::in_flight, plan.delay, turn);
}

bool Ledger::may(const Action& action) const {
  const OpRow& row = row_of(action.op);
  return !row.takes || with(*row.takes).contains(batch_round(action));
}

std::string Ledger::lacks(const Action& action) const {
  if (may(action)) return "";
  return fmt::format("a {} of batch {} before it",
                     giver_of(*row_of(action.op).takes),
                     to_text(batch_round(action)));
}

void Ledger::did(const BlockPlan& plan, const Action& action) {
  if (action.op == Op::update) ++updates_;
  const OpRow& row = row_of(action.op);
  if (row.takes && row.takes_all)
    marked(*row.takes).clear();
  else if (row.takes)
    marked(*row.takes).erase(batch_round(action));
  if (row.leaves != nullptr)
    for (const LeftMark& left : row.leaves(plan, action))
      marked(left.mark).insert(left.visit);
}

}  // namespace sluice
