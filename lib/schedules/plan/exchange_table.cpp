#include "lib/schedules/plan/exchange_table.h"

#include <algorithm>
#include <array>

#include "lib/base/by_block.h"
#include "lib/schedules/plan/program.h"

namespace sluice {
namespace {

/// Updates since the pipe was filled, that of the action included.
std::int64_t updates_until(const BlockPlan& plan, const Grant& grant,
                           const Action& action) {
  const std::int64_t turn = plan.micro_batches.turn_of(action.batch);
  return (turn - grant.first_batch + 1) / plan.accumulate;
}

/// Whether the window that the action fills, or that an update has applied, is
/// one with an exchange.
bool is_exchanged(const BlockPlan& plan, const Grant& grant,
                  const Action& before) {
  const ReplicaExchange& exchange = plan.exchange;
  if (is_exchange(before.op)) return false;
  const bool is_after = before.op == Op::update;
  if (is_after != (exchange.what == ExchangedTensors::weights)) return false;
  if (!is_after && !fills_window(plan, grant, before)) return false;
  if (plan.micro_batches.turn_of(before.batch) < exchange.each_before)
    return true;
  return (updates_until(plan, grant, before) + exchange.offset) %
             exchange.every ==
         0;
}

template <ExchangeKind kind>
bool is_window_due(const BlockPlan& plan, const Grant& grant,
                   const Action& before) {
  return plan.exchange.of_window() == kind && is_exchanged(plan, grant, before);
}

bool is_second_due(const BlockPlan& plan, const Grant& /*grant*/,
                   const Action& before) {
  return before.op == Op::settle && before.kind == ExchangeKind::gradients &&
         plan.exchange.rounds == 2;
}

bool is_gather_due(const BlockPlan& plan, const Grant& /*grant*/,
                   const Action& before) {
  return before.op == Op::update && plan.exchange.shards;
}

/// Whether replicas adopt weights at a turn of those that the update is of: a
/// centre decides that by itself.
bool is_adoption_due(const BlockPlan& plan, const Grant& /*grant*/,
                     const Action& before) {
  if (before.op != Op::update || plan.exchange.served) return false;
  const Rhythm& adopts = plan.exchange.adopts;
  const std::int64_t end = plan.micro_batches.turn_of(before.batch) + 1;
  return adopts.times_by(end) > adopts.times_by(end - plan.accumulate);
}

ExchangeSteps steps_of_sum(const BlockPlan& plan, const Action& /*settle*/) {
  const ReplicaExchange& exchange = plan.exchange;
  const double others = exchange.members - 1;
  return {others * exchange.halves(), exchange.parts()};
}

ExchangeSteps steps_of_lesson(const BlockPlan& plan, const Action& settle) {
  return {steps_of_sum(plan, settle).steps, 0};
}

ExchangeSteps steps_to_all(const BlockPlan& plan, const Action& /*settle*/) {
  return {static_cast<double>(plan.exchange.members - 1), 1};
}

/// Most messages that one replica sends, or takes, one after the other.
ExchangeSteps steps_to_peers(const BlockPlan& plan, const Action& settle) {
  const Peers peers = peers_of(plan, settle);
  return {static_cast<double>(std::max(peers.to.size(), peers.from.size())), 1};
}

/// Ascending, and no two the same: windows of so many turns lie between two.
std::int64_t number_of_exchange(const BlockPlan& plan, const Action& exchange) {
  return plan.micro_batches.turn_of(exchange.batch) /
         (plan.accumulate * plan.exchange.every);
}

}  // namespace

std::span<const ExchangeRow> exchange_rows() {
  using enum ExchangeKind;
  static constexpr std::array<ExchangeRow, kExchanges> kRows = {
      ExchangeRow{.kind = none, .name = "none"},
      ExchangeRow{.kind = gradients,
                  .name = "gradients",
                  .is_due = is_window_due<gradients>,
                  .steps = steps_of_sum},
      ExchangeRow{.kind = weights,
                  .name = "weights",
                  .is_due = is_window_due<weights>,
                  .steps = steps_of_sum},
      ExchangeRow{.kind = peers,
                  .name = "peers",
                  .between = ExchangePartners::peers,
                  .is_due = is_window_due<peers>,
                  .steps = steps_to_peers},
      ExchangeRow{.kind = push,
                  .name = "push",
                  .between = ExchangePartners::centre,
                  .is_due = is_window_due<push>},
      ExchangeRow{.kind = second,
                  .name = "second gradients",
                  .number = 3,
                  .is_due = is_second_due,
                  .steps = steps_of_sum},
      ExchangeRow{.kind = gather,
                  .name = "gathered weights",
                  .number = 2,
                  .is_due = is_gather_due,
                  .steps = steps_of_sum},
      ExchangeRow{.kind = adoption,
                  .name = "adoption",
                  .number = 4,
                  .is_due = is_adoption_due,
                  .steps = steps_to_all},
      ExchangeRow{.kind = pull,
                  .name = "pull",
                  .number = 5,
                  .between = ExchangePartners::centre},
      ExchangeRow{.kind = agreement,
                  .name = "agreement",
                  .number = 1,
                  .steps = steps_of_sum},
      ExchangeRow{.kind = lesson,
                  .name = "lesson",
                  .number = 6,
                  .steps = steps_of_lesson},
      ExchangeRow{.kind = input_lesson,
                  .name = "lesson of the input",
                  .number = 7,
                  .steps = steps_of_lesson},
      ExchangeRow{.kind = entry,
                  .name = "entry",
                  .number = 8,
                  .between = ExchangePartners::centre},
  };
  return kRows;
}

const ExchangeRow& row_of(ExchangeKind kind) {
  return exchange_rows()[static_cast<std::size_t>(kind)];
}

ExchangeKind exchange_of_number(std::int64_t number) {
  for (const ExchangeRow& row : exchange_rows())
    if (row.number == number && number > 0) return row.kind;
  return ExchangeKind::none;
}

bool is_exchange(Op op) {
  return op == Op::exchange || op == Op::settle;
}

bool is_of_window(ExchangeKind kind) {
  return kind != ExchangeKind::none && row_of(kind).number == 0;
}

bool is_of_lesson(const Action& action) {
  if (is_exchange(action.op))
    return action.kind == ExchangeKind::lesson ||
           action.kind == ExchangeKind::input_lesson;
  return action.op == Op::learn || action.op == Op::learn_input;
}

std::optional<ExchangeKind> exchange_after(const BlockPlan& plan,
                                           const Grant& grant,
                                           const Action& before) {
  for (const ExchangeRow& row : exchange_rows())
    if (row.is_due != nullptr && row.is_due(plan, grant, before))
      return row.kind;
  return std::nullopt;
}

Peers peers_of(const BlockPlan& plan, const Action& exchange) {
  return peers_of(plan.exchange.graph, plan.exchange.members, plan.replica,
                  number_of_exchange(plan, exchange));
}

int host_of(const BlockPlan& plan, const Action& visit) {
  const ReplicaExchange& exchange = plan.exchange;
  if (!exchange.visits_partners) return 1;
  return host_of_visit(exchange.graph, exchange.members, plan.replica,
                       number_of_exchange(plan, visit));
}

bool has_centre(const BlockPlan& plan) {
  const ReplicaExchange& exchange = plan.exchange;
  if (!exchange.served) return false;
  return exchange.visits_partners
             ? is_host(exchange.graph, exchange.members, plan.replica)
             : plan.replica == 1;
}

int visitors_of(const ReplicaExchange& exchange) {
  if (!exchange.visits_partners) return exchange.members;
  int visitors = 0;
  for (int member = 1; member <= exchange.members; ++member)
    visitors += is_host(exchange.graph, exchange.members, member) ? 0 : 1;
  return visitors;
}

bool is_norm_of_exchanged(const RunPlan& plan, int seat) {
  const ReplicaExchange& exchange = by_block(plan.blocks, seat).exchange;
  return plan.model_norm && exchange.what == ExchangedTensors::gradients &&
         !exchange.clips_own;
}

bool gives_gradients(const BlockPlan& plan, const Action& settle) {
  const ReplicaExchange& exchange = plan.exchange;
  return exchange.what == ExchangedTensors::gradients &&
         settle.kind == (exchange.rounds > 1 ? ExchangeKind::second
                                             : exchange.of_window());
}

bool sums_lessons(const BlockPlan& plan) {
  return plan.exchange.what == ExchangedTensors::gradients;
}

}  // namespace sluice
