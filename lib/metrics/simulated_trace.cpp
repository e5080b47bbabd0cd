#include "lib/metrics/simulated_trace.h"

#include <utility>

#include "lib/schedules/replicas/replicas.h"

namespace sluice {
namespace {

auto key_of(const Transfer& transfer) {
  return std::make_tuple(transfer.kind, transfer.from, transfer.to,
                         transfer.batch);
}

/// An arrow belongs to the slice that is open at its time: not to one that ends
/// just then.
double within(const TimedAction& timed) {
  return timed.start + 0.99 * (timed.end - timed.start);
}

}  // namespace

SimulatedTrace::SimulatedTrace(std::ostream& out, Plans plans)
    : plans_(std::move(plans)), trace_(out, seat_names(plans_.at(0))) {}

void SimulatedTrace::write(const TimedAction& timed) {
  const Action& action = timed.action;
  trace_.slice(timed.seat, name_of(action.op), name_of(action.op), timed.start,
               timed.end, to_text(action),
               {{"batch", action.batch}, {"turn", action.turn}});
  const RunPlan& plan = plans_.at(static_cast<std::size_t>(action.phase));
  for (const Transfer& need : needs_of(plan, timed.seat, action)) {
    const auto sent = under_way_.find(key_of(need));
    if (sent == under_way_.end()) continue;  // before the trace began
    trace_.taken(sent->second, name_of(need.kind), timed.seat, timed.start);
    under_way_.erase(sent);
  }
  for (const Transfer& yield : yields_of(plan, timed.seat, action)) {
    under_way_[key_of(yield)] = ++messages_;
    trace_.sent(messages_, name_of(yield.kind), timed.seat, within(timed));
  }
}

}  // namespace sluice
