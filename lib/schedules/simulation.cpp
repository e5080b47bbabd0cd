#include "lib/schedules/simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

std::size_t at(int one_based) {
  return static_cast<std::size_t>(one_based) - 1;
}

/// More than a phase of a timetable has between its barriers.
constexpr std::int64_t kStagesOfPhase = std::int64_t{1} << 42;

std::string text_of(const Transfer& transfer) {
  return fmt::format("{} {}", name_of(transfer.kind), transfer.batch);
}

}  // namespace

Simulation::Simulation(Plans plans, Costs costs,
                       std::vector<Capacity> capacities)
    : plans_(std::move(plans)), costs_(std::move(costs)) {
  const std::size_t blocks = plans_.at(0).blocks.size();
  lanes_.resize(blocks);
  SLUICE_CHECK(capacities.size() + 1 == blocks, "{} capacities for {} blocks",
               capacities.size(), blocks);
  for (const Capacity& capacity : capacities) {
    up_.push_back({{}, capacity.up, 0, 0});
    down_.push_back({{}, capacity.down, 0, 0});
  }
}

void Simulation::begin_at(std::int64_t phase, std::int64_t turn,
                          std::int64_t first_batch) {
  const RunPlan& now = plan(phase);
  for (const Transfer& sent : in_flight(now, turn, first_batch))
    channel(sent).queue.push_back({sent, 0});
  for (const BlockPlan& plan : now.blocks) {
    Lane& lane = lanes_[at(plan.block)];
    std::int64_t batch = std::max(first_batch, turn - plan.learn_delay);
    for (; batch < turn - plan.delay; ++batch) lane.lessons.insert(batch);
    for (batch = std::max(first_batch, turn - plan.delay); batch < turn;
         ++batch)
      lane.forwarded.insert(batch);
  }
}

void Simulation::extend(int block, const std::vector<Action>& actions) {
  std::deque<Action>& queue = lanes_[at(block)].actions;
  queue.insert(queue.end(), actions.begin(), actions.end());
}

Simulation::Direction& Simulation::channel(const Transfer& transfer) {
  return transfer.from < transfer.to ? up_[at(transfer.from)]
                                     : down_[at(transfer.to)];
}

const Simulation::Direction& Simulation::channel(
    const Transfer& transfer) const {
  return transfer.from < transfer.to ? up_[at(transfer.from)]
                                     : down_[at(transfer.to)];
}

const RunPlan& Simulation::plan(std::int64_t phase) const {
  return plans_.at(static_cast<std::size_t>(phase));
}

void Simulation::hold(int block, double until) {
  Lane& lane = lanes_[at(block)];
  lane.clock = std::max(lane.clock, until);
}

std::optional<std::int64_t> Simulation::stage_of(int block) const {
  const Lane& lane = lanes_[at(block)];
  if (lane.actions.empty()) return std::nullopt;
  const Action& action = lane.actions.front();
  const RunPlan& now = plan(action.phase);
  if (now.barrier == Barrier::none) return std::nullopt;
  if (action.kind == ActionKind::evaluate ||
      action.kind == ActionKind::checkpoint)
    return std::nullopt;  // the turns before it are done
  const bool is_second =
      now.barrier == Barrier::play_and_replay &&
      part_of(now.blocks[at(block)], action) == TurnPart::rest;
  return action.phase * kStagesOfPhase + 2 * action.turn + (is_second ? 1 : 0);
}

int Simulation::behind(int block) const {
  const std::optional<std::int64_t> mine = stage_of(block);
  if (!mine || *mine <= stage_) return 0;
  for (int other = 1; other <= std::ssize(lanes_); ++other)
    if (stage_of(other).value_or(*mine) < *mine) return other;
  return 0;
}

std::string Simulation::lacks(const Lane& lane, const Action& action) {
  if (action.kind == ActionKind::backward &&
      !lane.forwarded.contains(action.batch))
    return fmt::format("a forward of batch {} before it", action.batch);
  if (action.kind == ActionKind::update && !lane.pending.contains(action.batch))
    return fmt::format("a backward of batch {} before it", action.batch);
  if (action.kind == ActionKind::learn && !lane.lessons.contains(action.batch))
    return fmt::format("a backward of batch {} before it", action.batch);
  return "";
}

void Simulation::note(const BlockPlan& plan, const Action& action, Lane& lane) {
  if (action.kind == ActionKind::forward) lane.forwarded.insert(action.batch);
  if (action.kind == ActionKind::backward) {
    lane.forwarded.erase(action.batch);
    lane.pending.insert(action.batch);
    if (plan.learns) lane.lessons.insert(action.batch);
  }
  if (action.kind == ActionKind::learn) lane.lessons.erase(action.batch);
  if (action.kind == ActionKind::update) lane.pending.clear();
}

const RunPlan& Simulation::plan_of(const Lane& lane) const {
  return plan(lane.actions.front().phase);
}

std::optional<double> Simulation::start_of(int block) const {
  const Lane& lane = lanes_[at(block)];
  if (lane.actions.empty() || !lacks(lane, lane.actions.front()).empty())
    return std::nullopt;
  if (behind(block) != 0) return std::nullopt;
  double start = lane.clock;
  if (const auto stage = stage_of(block))
    start = std::max(start, *stage > stage_ ? latest_end_ : stage_start_);
  for (const Transfer& need :
       needs_of(plan_of(lane), block, lane.actions.front())) {
    const Direction& from = channel(need);
    if (from.queue.empty() || from.queue.front().transfer != need)
      return std::nullopt;
    start = std::max(start, from.queue.front().arrival);
  }
  for (const Transfer& yield :
       yields_of(plan_of(lane), block, lane.actions.front())) {
    const Direction& to = channel(yield);
    if (to.queue.size() >= to.capacity) return std::nullopt;
    start = std::max(start, to.room_since);
  }
  return start;
}

std::optional<TimedAction> Simulation::next() {
  int chosen = 0;
  double earliest = std::numeric_limits<double>::infinity();
  for (int block = 1; block <= std::ssize(lanes_); ++block) {
    const std::optional<double> start = start_of(block);
    if (start && *start < earliest) {
      earliest = *start;
      chosen = block;
    }
  }
  if (chosen == 0) return std::nullopt;

  const std::optional<std::int64_t> stage = stage_of(chosen);
  if (stage && *stage > stage_) {
    stage_ = *stage;
    stage_start_ = latest_end_;
  }
  Lane& lane = lanes_[at(chosen)];
  const Action action = lane.actions.front();
  lane.actions.pop_front();
  const double end =
      earliest +
      seconds_of(costs_, plan(action.phase).blocks[at(chosen)], action);
  lane.clock = end;
  if (stage) latest_end_ = std::max(latest_end_, end);
  note(plan(action.phase).blocks[at(chosen)], action, lane);
  for (const Transfer& need : needs_of(plan(action.phase), chosen, action)) {
    Direction& from = channel(need);
    const bool was_full = from.queue.size() == from.capacity;
    from.queue.pop_front();
    if (was_full) from.room_since = earliest;
  }
  for (const Transfer& yield : yields_of(plan(action.phase), chosen, action))
    send(yield, end);
  return TimedAction{chosen, action, earliest, end};
}

void Simulation::send(const Transfer& transfer, double time) {
  Direction& to = channel(transfer);
  const Transit transit = transit_of(costs_, transfer);
  to.free_since = std::max(time, to.free_since) + transit.occupies;
  double arrival = to.free_since + transit.latency;
  // Jitter overtakes nobody.
  if (!to.queue.empty()) arrival = std::max(arrival, to.queue.back().arrival);
  to.queue.push_back({transfer, arrival});
}

bool Simulation::idle(int block) const {
  return lanes_[at(block)].actions.empty();
}

bool Simulation::finished() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.actions.empty(); });
}

std::pair<int, std::string> Simulation::waits_for(int block) const {
  const Lane& lane = lanes_[at(block)];
  if (lane.actions.empty()) return {0, ""};
  const std::string action = to_text(lane.actions.front());
  const std::string missing = lacks(lane, lane.actions.front());
  if (!missing.empty())
    return {block,
            fmt::format("block {} ({}) lacks {}", block, action, missing)};
  if (const int other = behind(block))
    return {other, fmt::format("block {} ({}) waits at the barrier for block "
                               "{}",
                               block, action, other)};
  for (const Transfer& need :
       needs_of(plan_of(lane), block, lane.actions.front())) {
    const Direction& from = channel(need);
    if (from.queue.empty())
      return {need.from, fmt::format("block {} ({}) waits for {} of block {}",
                                     block, action, text_of(need), need.from)};
    const Transfer& head = from.queue.front().transfer;
    if (head != need)
      return {
          block,
          fmt::format("block {} ({}) wants {} of block {}, but {} comes "
                      "first",
                      block, action, text_of(need), need.from, text_of(head))};
  }
  for (const Transfer& yield :
       yields_of(plan_of(lane), block, lane.actions.front())) {
    const Direction& to = channel(yield);
    if (to.queue.size() >= to.capacity)
      return {yield.to,
              fmt::format("block {} ({}) waits until block {} has taken one of "
                          "{} messages",
                          block, action, yield.to, to.capacity)};
  }
  return {0, ""};
}

std::string Simulation::stuck() const {
  int block = 1;
  while (block < std::ssize(lanes_) && idle(block)) ++block;
  std::vector<int> path;
  std::string story;
  while (std::find(path.begin(), path.end(), block) == path.end()) {
    path.push_back(block);
    const auto [next, reason] = waits_for(block);
    story += (story.empty() ? "" : "; ") + reason;
    if (idle(next == 0 ? block : next)) {
      story += fmt::format("; block {} has nothing more to do",
                           next == 0 ? block : next);
      return story;
    }
    block = next == 0 ? block : next;
  }
  return story;
}

std::vector<std::pair<int, bool>> Simulation::full_channels() const {
  std::vector<std::pair<int, bool>> full;
  for (int boundary = 1; boundary <= std::ssize(up_); ++boundary) {
    if (up_[at(boundary)].queue.size() >= up_[at(boundary)].capacity)
      full.emplace_back(boundary, true);
    if (down_[at(boundary)].queue.size() >= down_[at(boundary)].capacity)
      full.emplace_back(boundary, false);
  }
  return full;
}

Grant sample_grant(const RunPlan& plan, std::int64_t steady_turns) {
  std::int64_t longest = 0;
  for (const BlockPlan& block : plan.blocks)
    longest = std::max(longest, turns_in_flight(block));
  Grant grant;
  grant.end_turn = longest + steady_turns;
  grant.drain = true;
  grant.evaluation_batches = 2;
  grant.checkpoint = true;
  grant.finish = true;
  return grant;
}

namespace {

constexpr std::int64_t kTurnsAfterEvaluation = 4;

/// Runs the sample to its end, or to where it waits for itself.
Simulation sampled(const RunPlan& plan, const Grant& grant,
                   const std::vector<Capacity>& capacities) {
  Simulation simulation({plan}, {}, capacities);
  // An evaluation in mid-run finds gradients under way.
  Grant first = grant;
  first.end_turn -= kTurnsAfterEvaluation;
  first.drain = false;
  Grant second = grant;
  second.first_turn = first.end_turn;
  for (const BlockPlan& block : plan.blocks)
    for (const Grant& each : {first, second})
      simulation.extend(block.block, actions_of(block, each));
  while (simulation.next()) {
  }
  return simulation;
}

std::size_t& side(std::vector<Capacity>& capacities, int boundary, bool is_up) {
  Capacity& capacity = capacities[at(boundary)];
  return is_up ? capacity.up : capacity.down;
}

}  // namespace

std::vector<Capacity> capacities_of(const RunPlan& plan, std::size_t slack) {
  std::vector<Capacity> capacities(plan.blocks.size() - 1);
  const Grant grant = sample_grant(plan, 8);
  for (;;) {
    const Simulation simulation = sampled(plan, grant, capacities);
    if (simulation.finished()) break;
    const auto full = simulation.full_channels();
    if (full.empty())
      throw UserError("this schedule waits for itself: {}", simulation.stuck());
    for (const auto& [boundary, is_up] : full)
      ++side(capacities, boundary, is_up);
  }
  // Not every channel that was full was the reason.
  for (int boundary = 1; boundary <= std::ssize(capacities); ++boundary)
    for (const bool is_up : {true, false})
      while (side(capacities, boundary, is_up) > 1) {
        --side(capacities, boundary, is_up);
        if (sampled(plan, grant, capacities).finished()) continue;
        ++side(capacities, boundary, is_up);
        break;
      }
  for (Capacity& capacity : capacities) {
    capacity.up += slack;
    capacity.down += slack;
  }
  return capacities;
}

std::vector<Capacity> capacities_of(const Plans& plans, std::size_t slack) {
  std::vector<Capacity> all = capacities_of(plans.at(0), slack);
  for (const RunPlan& plan : plans) {
    const std::vector<Capacity> one = capacities_of(plan, slack);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = {std::max(all[i].up, one[i].up),
                std::max(all[i].down, one[i].down)};
  }
  return all;
}

std::vector<TimedAction> simulate(
    const RunPlan& plan, const Costs& costs,
    const std::vector<Capacity>& capacities,
    const std::vector<std::vector<Action>>& actions) {
  SLUICE_CHECK(actions.size() == plan.blocks.size(),
               "actions for {} blocks, the plan has {}", actions.size(),
               plan.blocks.size());
  Simulation simulation({plan}, costs, capacities);
  for (const BlockPlan& block : plan.blocks)
    simulation.extend(block.block, actions[at(block.block)]);
  std::vector<TimedAction> timeline;
  while (const std::optional<TimedAction> done = simulation.next())
    timeline.push_back(*done);
  if (!simulation.finished())
    throw UserError("this schedule waits for itself: {}", simulation.stuck());
  return timeline;
}

}  // namespace sluice
