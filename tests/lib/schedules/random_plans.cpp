#include "tests/lib/schedules/random_plans.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/plan/program.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/lib/schedules/interrupted.h"

namespace sluice {
namespace {

/// Choices made by bytes, one each; zeros when there are no more.
class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  int below(int limit) {
    if (bytes_.empty()) return 0;
    const int value = bytes_.front() % limit;
    bytes_ = bytes_.subspan(1);
    return value;
  }
  bool one_in(int times) { return below(times) == times - 1; }
  template <class Enum>
  Enum any(int values) {
    return static_cast<Enum>(below(values));
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

ReplayOptions random_buffer(Choices& choices) {
  return {.batches = 1 + choices.below(4),
          .order = choices.any<ReplayOrder>(3),
          .max_reuse = choices.below(4) - 1,
          .key = 7};
}

Traits random_traits(Choices& choices, bool is_free) {
  Traits traits;
  traits.cut = choices.one_in(3);
  traits.delay = traits.cut ? 0 : choices.below(4);
  traits.lower.learns = choices.one_in(4);
  // A source that learns does so from what comes from above.
  traits.from_above = !traits.cut || traits.lower.learns || choices.one_in(3);
  traits.own = choices.one_in(3);
  if (!traits.cut && choices.one_in(3)) traits.reach.blocks = choices.below(4);
  traits.reach.rule = choices.any<ReachRule>(2);
  traits.weights = {"any", choices.one_in(2), choices.one_in(2)};
  if (choices.one_in(2)) traits.order = Order::backward_first;
  if (traits.lower.learns) traits.lower.target_delay = choices.below(4);
  if (traits.lower.learns && choices.one_in(3))
    traits.lower.lam_target = 0.5 * choices.below(3);
  if (choices.one_in(4)) traits.lower.attachments = {kRawInput};
  if (choices.one_in(6)) traits.upper = UpperEnd::answers;
  if (!is_free && choices.one_in(6)) traits.upper = UpperEnd::from_data;
  if (!is_free) return traits;
  if (choices.one_in(4)) traits.inbox.buffer = random_buffer(choices);
  if (choices.one_in(4))
    traits.inbox.slow_consumer = choices.any<SlowConsumer>(3);
  return traits;
}

MicroBatches random_cut(Choices& choices) {
  MicroBatches cut{.count = 1 + choices.below(4),
                   .turns_per_epoch = choices.below(4)};
  cut.samples = cut.count * (1 + choices.below(3));
  cut.last_samples = 1 + choices.below(static_cast<int>(cut.samples));
  return cut;
}

BlockProgram in_halves(const BlockPlan& plan, const Grant& grant) {
  return with_split_backwards(turns_of(plan, grant));
}

Costs random_costs(Choices& choices, std::size_t blocks) {
  Costs costs;
  const auto seconds = [&] { return 0.5 * choices.below(4); };
  for (std::size_t k = 0; k < blocks; ++k)
    costs.blocks.push_back({.seconds = {{Op::forward, seconds()},
                                        {Op::backward, seconds()},
                                        {Op::update, seconds()},
                                        {Op::learn, seconds()},
                                        {Op::learn_input, seconds()}},
                            .slowness = 1.0 + choices.below(3)});
  costs.latency = seconds();
  if (choices.one_in(3)) costs.jitter = 0.5;
  return costs;
}

struct Case {
  std::vector<Traits> boundaries;
  bool is_free = false;
  std::string order = "turns";
  ScheduleOptions options;
  bool is_split = false;
  RunPlan plan;
  Costs costs;
  std::size_t slack = 0;
  Grant grant;
};

constexpr const char* kPipelines[] = {"gpipe", "1f1b", "zb-h1", "interleaved",
                                      "zb-v"};

/// Blocks to executors, as many batches as they can take; returns how many
/// boundaries there are.
int deal_out(Choices& choices, ScheduleOptions& options) {
  options.executors = 1 + choices.below(3);
  MicroBatches& cut = options.micro_batches;
  cut.count = std::int64_t{options.executors} * (1 + choices.below(2));
  cut.samples = cut.count * (1 + choices.below(2));
  cut.turns_per_epoch = choices.below(4);
  cut.last_samples = 1 + choices.below(static_cast<int>(cut.samples));
  return options.executors * (1 + choices.below(3)) - 1;
}

/// Nothing for traits that don't go together.
std::optional<Case> case_of(std::span<const std::uint8_t> bytes) {
  Choices choices(bytes);
  Case made;
  made.is_free = choices.one_in(2);
  int boundaries = choices.below(6);
  made.options.model_norm = choices.one_in(8);
  made.options.accumulate = 1 + choices.below(3);
  made.options.in_flight = choices.below(5);
  if (choices.one_in(4)) made.options.micro_batches = random_cut(choices);
  if (made.is_free)
    made.order = "free";
  else if (choices.one_in(3))
    made.order = kPipelines[choices.below(5)];
  if (made.order == "interleaved") boundaries = deal_out(choices, made.options);
  made.is_split =
      made.order == "turns" && !made.options.model_norm && choices.one_in(4);
  const int barrier = choices.below(6);
  made.slack = static_cast<std::size_t>(choices.below(3));
  made.grant = {.end_turn = 1 + choices.below(12),
                .drain = true,
                .evaluation_batches = choices.below(3),
                .checkpoint = choices.one_in(2)};
  made.costs = random_costs(choices, static_cast<std::size_t>(boundaries) + 1);
  for (int k = 0; k < boundaries; ++k)
    made.boundaries.push_back(random_traits(choices, made.is_free));
  // All boundaries between two cuts, or none.
  if (choices.one_in(6))
    for (Traits& each : made.boundaries)
      each.weights = {.view = "any", .of_entry = true};
  try {
    made.plan = find_row(schedule_rows(), made.order, "order")
                    .make(made.boundaries, made.options);
  } catch (const UserError&) {
    return std::nullopt;
  }
  if (!made.is_free && barrier < 3)
    made.plan.barrier = static_cast<Barrier>(barrier);
  // No order has both halves and visits.
  made.is_split =
      made.is_split &&
      std::all_of(made.plan.blocks.begin(), made.plan.blocks.end(),
                  [](const BlockPlan& block) { return block.visits.empty(); });
  if (made.is_split)
    for (BlockPlan& block : made.plan.blocks) block.program = in_halves;
  return made;
}

/// How often a block did what, by op and batch.
using OpCounts = std::map<std::pair<Op, std::int64_t>, int>;

std::vector<OpCounts> what_was_done(const Case& made,
                                    const std::vector<TimedAction>& timeline) {
  std::vector<OpCounts> done(made.plan.blocks.size());
  for (const TimedAction& timed : timeline)
    ++by_block(done, timed.seat)[{timed.action.op, timed.action.batch}];
  return done;
}

/// Actions of a run that goes back to a checkpoint half way, after which
/// nothing takes time.
std::vector<OpCounts> what_was_done_at_last(
    const Case& made, const std::vector<Capacity>& capacities) {
  std::vector<OpCounts> done;
  for (const std::vector<Action>& actions :
       actions_of_interrupted(made.plan, capacities, made.costs, {},
                              made.grant.end_turn / 2, made.grant)) {
    done.emplace_back();
    for (const Action& action : actions)
      ++done.back()[{action.op, action.batch}];
  }
  return done;
}

std::int64_t count(const OpCounts& done, Op op) {
  return std::count_if(done.begin(), done.end(), [&](const auto& item) {
    return item.first.first == op;
  });
}

std::string fault_of_block(const Case& made, const BlockPlan& block,
                           const OpCounts& done) {
  for (const auto& [what, times] : done)
    if (times != (what.first == Op::backward ? block.rounds() : 1))
      return fmt::format("does {} of batch {} {} times", name_of(what.first),
                         what.second, times);
  const std::int64_t forwards = count(done, Op::forward);
  std::int64_t batches = 0;
  for (std::int64_t turn = 0; turn < made.grant.end_turn; ++turn)
    batches += block.micro_batches.batches_in(turn);
  if (!block.free.has_gaps && forwards != batches)
    return fmt::format("forwards {} of {} batches", forwards, batches);
  const auto for_each_forward = [&](Op op) {
    return std::all_of(done.begin(), done.end(), [&](const auto& item) {
      return item.first.first != Op::forward ||
             done.contains({op, item.first.second});
    });
  };
  for (const auto& [what, times] : done) {
    const auto does = [&, batch = what.second](Op op) {
      return done.contains({op, batch});
    };
    if (what.first != Op::forward) continue;
    if (does(Op::backward) == does(Op::backward_input) ||
        does(Op::backward_input) != does(Op::backward_weights))
      return fmt::format("goes not once backward with batch {}", what.second);
  }
  if (count(done, Op::backward) + count(done, Op::backward_input) != forwards)
    return "goes backward with a batch that it didn't forward";
  if (block.lower.learns &&
      (!for_each_forward(Op::learn) || count(done, Op::learn) != forwards))
    return "doesn't learn from each batch";
  if (block.forwards_data() && count(done, Op::learn_input) != forwards)
    return "doesn't learn from each input";
  const std::int64_t turns =
      block.micro_batches.count == 1 ? forwards : made.grant.end_turn;
  if (count(done, Op::update) != turns / made.options.accumulate)
    return fmt::format("updates {} times for {} turns in windows of {}",
                       count(done, Op::update), turns, made.options.accumulate);
  if (count(done, Op::evaluate) != made.grant.evaluation_batches)
    return "doesn't evaluate each batch";
  if (count(done, Op::save) != (made.grant.checkpoint ? 1 : 0))
    return "doesn't save once";
  return "";
}

std::string to_text(const Case& made) {
  std::string text = fmt::format(
      "{} turns, accumulate {}, M {}, order {}, {}, barrier {}, slack {}; "
      "boundaries:",
      made.grant.end_turn, made.options.accumulate,
      made.options.micro_batches.count, made.order,
      made.is_split ? "backward in halves" : "backward whole",
      static_cast<int>(made.plan.barrier), made.slack);
  for (const Traits& each : made.boundaries)
    text += fmt::format(
        " [delay {} cut {} from_above {} own {} reach {} rule {} weights {} "
        "of entry {} order {} learns {} target_delay {} lam_target {} upper {} "
        "buffer {} slow_consumer {}]",
        each.delay, each.cut, each.from_above, each.own, each.reach.blocks,
        static_cast<int>(each.reach.rule), each.weights.forwards_again,
        each.weights.of_entry, static_cast<int>(each.order), each.lower.learns,
        each.lower.target_delay, each.lower.lam_target.value_or(-1),
        static_cast<int>(each.upper),
        each.inbox.buffer ? fmt::format("{} x {}", each.inbox.buffer->batches,
                                        each.inbox.buffer->max_reuse)
                          : "none",
        static_cast<int>(each.inbox.slow_consumer));
  return text;
}

std::string fault_of(const Case& made, const std::vector<OpCounts>& done) {
  for (const BlockPlan& block : made.plan.blocks) {
    const std::string fault =
        fault_of_block(made, block, by_block(done, block.block));
    if (!fault.empty()) return fmt::format("block {} {}", block.block, fault);
  }
  return "";
}

std::string fault_of(const Case& made,
                     const std::vector<Capacity>& capacities) {
  std::size_t most = made.slack + 4 +
                     static_cast<std::size_t>(made.options.micro_batches.count);
  for (const BlockPlan& block : made.plan.blocks)
    most =
        std::max(most, 4 + made.slack +
                           static_cast<std::size_t>(std::max(
                               turns_in_flight(block), block.free.in_flight)));
  for (const Capacity& capacity : capacities)
    if (std::max(capacity.up, capacity.down) > most)
      return fmt::format("a channel holds {} messages up and {} down",
                         capacity.up, capacity.down);
  const std::string fault = fault_of(
      made, what_was_done(
                made, simulate(made.plan, made.costs, capacities, made.grant)));
  if (!fault.empty() || !made.is_free || !can_be_continued(made.plan))
    return fault;
  const std::string later =
      fault_of(made, what_was_done_at_last(made, capacities));
  return later.empty() ? "" : "after an interruption " + later;
}

}  // namespace

PlanVerdict judge_plan(std::span<const std::uint8_t> bytes) {
  const std::optional<Case> made = case_of(bytes);
  if (!made) return {};
  PlanVerdict verdict{.is_accepted = true};
  std::vector<Capacity> capacities;
  try {
    capacities = capacities_of(made->plan, made->slack);
  } catch (const UserError&) {
    verdict.waits_for_itself = true;
    return verdict;
  }
  try {
    verdict.fault = fault_of(*made, capacities);
  } catch (const Error& error) {
    verdict.fault = error.what();
  }
  if (!verdict.fault.empty()) verdict.fault += "; " + to_text(*made);
  return verdict;
}

}  // namespace sluice
