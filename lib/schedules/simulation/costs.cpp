#include "lib/schedules/simulation/costs.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/random.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/plan/op_table.h"

namespace sluice {

double op_seconds(const BlockCosts& costs, Op op) {
  const OpRow& row = row_of(op);
  const bool is_half = row.cost_share < 1;
  if (is_half && costs.seconds[op] > 0) return costs.seconds[op];
  double seconds = costs.seconds[row.costs_as];
  if (op == Op::backward && seconds == 0)
    seconds =
        costs.seconds[Op::backward_input] + costs.seconds[Op::backward_weights];
  return seconds * row.cost_share;
}

bool replays(const BlockPlan& plan) {
  return plan.sees_old_weights() ? plan.weights.forwards_again : plan.recompute;
}

namespace {

BlockCosts costs_of(const Costs& costs, int seat) {
  const BlockCosts* mine = find_by_block(costs.blocks, seat);
  return mine != nullptr ? *mine : BlockCosts{};
}

/// What rebuilds its input takes another forward for that.
double replay_seconds(const BlockCosts& costs, const BlockPlan& plan) {
  if (!replays(plan)) return 0;
  const double forward = costs.seconds[Op::forward];
  return costs.replay.value_or(plan.weights.rebuilds ? 2 * forward : forward);
}

/// A visit takes back to the inputs, to the weights, or to both. That of the
/// lowest block counts as a whole backward, as elsewhere.
double sweep_seconds(const BlockCosts& costs, const BlockPlan& plan,
                     const Action& action) {
  const BackwardVisit& visit =
      plan.visits.at(static_cast<std::size_t>(action.round));
  double seconds = 0;
  if (!visit.goes_back) return seconds;
  const bool leaves = visit.leaving != GradientPart::kStays;
  if (visit.applied && (leaves || plan.block == 1))
    seconds = op_seconds(costs, Op::backward);
  else if (visit.applied)
    seconds = op_seconds(costs, Op::backward_weights);
  else if (leaves)
    seconds = op_seconds(costs, Op::backward_input);
  if (visit.takes_input) seconds += costs.seconds[Op::forward];
  if (action.round == 0) seconds += costs.head + replay_seconds(costs, plan);
  return seconds;
}

double mean_seconds(const BlockCosts& costs, const BlockPlan& plan,
                    const Action& action) {
  const Op op = action.op;
  const double seconds = op_seconds(costs, op);
  if (op == Op::backward && plan.sweeps)
    return sweep_seconds(costs, plan, action);
  // In a backward of two halves, or of several visits, the first has the head
  // and the replay. The order of the sum decides the last bits of a virtual
  // time.
  const bool has_head =
      (op == Op::backward || op == Op::backward_input) && action.round == 0;
  if (has_head) return seconds + costs.head + replay_seconds(costs, plan);
  // Batches of an evaluation are as large as a whole turn's.
  return op == Op::evaluate
             ? seconds * static_cast<double>(plan.micro_batches.count)
             : seconds;
}

KeyedRandom chance_of(std::uint64_t key,
                      std::initializer_list<std::int64_t> what,
                      std::int64_t round) {
  for (const std::int64_t part : what)
    key = random_key({key, static_cast<std::uint64_t>(part)});
  if (round > 0) key = random_key({key, static_cast<std::uint64_t>(round)});
  return KeyedRandom(key);
}

double factor(const Costs& costs, std::initializer_list<std::int64_t> what,
              std::int64_t round) {
  if (costs.jitter == 0) return 1;
  return chance_of(random_key({costs.seed, key_part("virtual clock")}), what,
                   round)
      .uniform(1 - costs.jitter, 1 + costs.jitter);
}

/// Time of an action over its mean.
double service_of(const Costs& costs, const BlockPlan& plan,
                  const Action& action) {
  if (costs.service == Service::fixed) return 1;
  KeyedRandom chance =
      chance_of(random_key({costs.seed, key_part("service")}),
                {plan.seat(), static_cast<std::int64_t>(action.op),
                 action.batch, action.turn},
                batch_round(action).round);
  // 1 - uniform() is in (0, 1], where the logarithm is finite.
  return -std::log(1 - chance.uniform());
}

LinkCosts link_of(const Costs& costs, const Transfer& transfer) {
  const LinkCosts* own = find_by_block(costs.links, transfer.lower());
  return own != nullptr ? *own : LinkCosts{costs.latency, costs.bandwidth};
}

}  // namespace

bool takes_time(const Costs& costs) {
  const bool computes = std::any_of(
      costs.blocks.begin(), costs.blocks.end(), [](const BlockCosts& block) {
        return block.head > 0 ||
               std::any_of(block.seconds.begin(), block.seconds.end(),
                           [](double seconds) { return seconds > 0; });
      });
  const bool waits = std::any_of(
      costs.links.begin(), costs.links.end(), [](const LinkCosts& link) {
        return link.latency > 0 || link.bandwidth > 0;
      });
  const LinkCosts& exchange = costs.exchange_link;
  return computes || waits || costs.latency > 0 || costs.bandwidth > 0 ||
         exchange.latency > 0 || exchange.bandwidth > 0;
}

namespace {

double variation_of(const Costs& costs, int seat, const Action& action) {
  const Variation* mine = find_by_block(costs.variation, seat);
  if (mine == nullptr || (*mine)[action.op].empty()) return 1;
  const std::vector<double>& factors = (*mine)[action.op];
  return factors[static_cast<std::size_t>(action.turn) % factors.size()];
}

}  // namespace

double seconds_of(const Costs& costs, const BlockPlan& plan,
                  const Action& action) {
  const BlockCosts mine = costs_of(costs, plan.seat());
  return mean_seconds(mine, plan, action) * mine.slowness *
         variation_of(costs, plan.seat(), action) *
         service_of(costs, plan, action) *
         factor(costs,
                {plan.seat(), static_cast<std::int64_t>(action.op),
                 action.batch, action.turn},
                batch_round(action).round);
}

double bytes_of(const Costs& costs, const Transfer& transfer) {
  const MessageBytes* bytes = find_by_block(costs.bytes, transfer.lower());
  if (bytes == nullptr) return 0;
  switch (transfer.kind) {
    case MessageKind::activation:
      return bytes->activation;
    case MessageKind::gradient:
      return bytes->gradient;
    case MessageKind::evaluation:
      return bytes->evaluation;
    case MessageKind::norm:
      return bytes->norm;
    default:
      return 0;
  }
}

Transit transit_of(const Costs& costs, const Transfer& transfer) {
  const double jitter =
      factor(costs,
             {transfer.from, -transfer.to,
              static_cast<std::int64_t>(transfer.kind), transfer.batch},
             transfer.round);
  const LinkCosts link = link_of(costs, transfer);
  Transit transit{0, link.latency * jitter};
  if (link.bandwidth > 0)
    transit.occupies = bytes_of(costs, transfer) / link.bandwidth * jitter;
  return transit;
}

namespace {

/// Repeats the values of the blocks, so that each seat has its block's.
template <class T>
void repeat(std::vector<T>& list, const RunPlan& plan) {
  const auto depth = static_cast<std::size_t>(plan.depth());
  if (list.empty() || list.size() > depth) return;
  list.resize(depth);
  for (std::size_t i = depth; i < plan.blocks.size(); ++i)
    list.push_back(by_block(list, plan.blocks[i].block));
}

}  // namespace

Costs by_seat(Costs costs, const RunPlan& plan) {
  if (plan.replicas == 1) return costs;
  repeat(costs.blocks, plan);
  repeat(costs.bytes, plan);
  repeat(costs.links, plan);
  repeat(costs.beside, plan);
  repeat(costs.variation, plan);
  repeat(costs.exchange_bytes, plan);
  for (const SlowReplica& slow : std::exchange(costs.slow_replicas, {})) {
    const int seat = seat_of(plan, slow.block, slow.replica);
    for (std::vector<BlockCosts>* list : {&costs.blocks, &costs.beside})
      if (BlockCosts* its = find_by_block(*list, seat))
        its->slowness *= slow.slowness;
  }
  return costs;
}

double exchange_seconds(const Costs& costs, const BlockPlan& plan,
                        const Action& settle) {
  const double* bytes = find_by_block(costs.exchange_bytes, plan.seat());
  const LinkCosts& link = costs.exchange_link;
  const ExchangeSteps way = row_of(settle.kind).steps(plan, settle);
  double step = link.latency;
  if (bytes != nullptr && link.bandwidth > 0 && way.parts > 0)
    step += *bytes / way.parts / link.bandwidth;
  // Number that is equal for all replicas, so that their jitter is too.
  const std::int64_t batch =
      plan.micro_batches.dealt > 1 ? settle.turn : settle.batch;
  return way.steps * step *
         factor(costs,
                {plan.block, static_cast<std::int64_t>(settle.op), batch,
                 settle.turn},
                batch_round(settle).round);
}

double visit_seconds(const Costs& costs, const BlockPlan& plan,
                     const Action& settle) {
  if (plan.exchange.visits_partners && has_centre(plan)) return 0;
  const double* bytes = find_by_block(costs.exchange_bytes, plan.seat());
  const LinkCosts& link = costs.exchange_link;
  double seconds = link.latency;
  if (bytes != nullptr && link.bandwidth > 0)
    seconds += *bytes / link.bandwidth;
  return seconds * factor(costs,
                          {plan.seat(), static_cast<std::int64_t>(Op::settle),
                           settle.batch, settle.turn},
                          batch_round(settle).round);
}

double seconds_in_one_block(const Costs& costs, const RunPlan& plan) {
  if (costs.in_one_block > 0) return costs.in_one_block;
  double seconds = 0;
  for (const BlockPlan& block : plan.blocks) {
    if (block.replica > 1) break;
    const BlockCosts mine = costs_of(costs, block.block);
    const auto batches = static_cast<double>(block.micro_batches.count);
    seconds +=
        (mine.seconds[Op::forward] + op_seconds(mine, Op::backward)) * batches +
        mine.seconds[Op::update] / static_cast<double>(block.accumulate);
  }
  return seconds;
}

}  // namespace sluice
