#include "lib/schedules/simulation/repetition.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lib/schedules/orders/free_running.h"

namespace sluice {
namespace {

/// Moments that are kept, and so the most steps of a period.
constexpr std::size_t kMoments = 12;
/// Part of a period by which rounding may shift a time in it.
constexpr double kRounding = 1e-10;

/// Whether the replicas of a block meet in the same way each time.
bool meets_alike(const ReplicaExchange& exchange) {
  const PeerGraph& graph = exchange.graph;
  const bool changes = graph.pairs || graph.rotates ||
                       graph.shape == PeerShape::hops ||
                       graph.shape == PeerShape::random;
  return !changes && exchange.adopts.every == 0 && !exchange.in_memory;
}

bool has_equal_turns(const MicroBatches& cut) {
  return cut.count == 1 || cut.turns_per_epoch == 0 ||
         cut.last_samples == cut.samples;
}

/// The first turn from which on the programs of all blocks repeat.
std::int64_t first_alike(const RunPlan& plan) {
  std::int64_t first = 0;
  for (const BlockPlan& block : plan.blocks)
    first =
        std::max({first, turns_in_flight(block), block.exchange.each_before});
  return first;
}

bool are_near(const std::vector<double>& left, const std::vector<double>& right,
              double within) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [&](double one, double other) {
                      return std::abs(one - other) <= within;
                    });
}

}  // namespace

std::int64_t turns_that_repeat(const RunPlan& plan, const Costs& costs) {
  if (runs_free(plan) || costs.has_chance()) return 0;
  std::int64_t turns = 1;
  for (const BlockPlan& block : plan.blocks) {
    if (!meets_alike(block.exchange) || !has_equal_turns(block.micro_batches))
      return 0;
    turns = std::lcm(turns, block.accumulate * block.exchange.every);
  }
  for (const Variation& block_factors : costs.variation)
    for (const std::vector<double>& factors : block_factors)
      if (!factors.empty()) turns = std::lcm(turns, std::ssize(factors));
  return turns;
}

Repetition::Repetition(const RunPlan& plan, const Costs& costs,
                       std::int64_t last_turn, std::int64_t window)
    : step_(turns_that_repeat(plan, costs)),
      first_turn_(first_alike(plan)),
      last_turn_(last_turn),
      window_(window) {}

std::optional<Repetition::Period> Repetition::period_to(
    const Moment& now) const {
  for (auto before = moments_.rbegin(); before != moments_.rend(); ++before) {
    const std::int64_t turns = now.turn - before->turn;
    const double seconds = now.time - before->time;
    if (before->turn <= last_turn_ && window_ % turns == 0 &&
        before->state.places == now.state.places &&
        are_near(before->state.times, now.state.times, kRounding * seconds))
      return Period{turns, before->time, now.time, before->totals};
  }
  return std::nullopt;
}

std::optional<Repetition::Period> Repetition::after(
    const TimedAction& timed, const Simulation& simulation,
    const SpeedMeter::Totals& totals) {
  if (step_ == 0 || timed.seat != 1) return std::nullopt;
  const std::int64_t turn = simulation.turn_of_next(1).value_or(turn_);
  if (turn <= std::exchange(turn_, std::max(turn_, turn))) return std::nullopt;
  const std::int64_t last_moment =
      last_turn_ + step_ * static_cast<std::int64_t>(kMoments);
  if (turn % step_ != 0 || turn > last_moment ||
      simulation.least_turn() < first_turn_)
    return std::nullopt;
  Moment now{turn, timed.start, simulation.state(turn), totals};
  const std::optional<Period> period = period_to(now);
  moments_.push_back(std::move(now));
  if (moments_.size() > kMoments) moments_.pop_front();
  return period;
}

}  // namespace sluice
