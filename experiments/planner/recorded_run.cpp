#include "experiments/planner/recorded_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/schedules/plan/op_table.h"

namespace sluice::planner {
namespace {

constexpr std::int64_t kLeast = 4;  // turns

bool is_wait(const TracedAction& action) {
  return action.category == "wait";
}

bool is_training(const TracedAction& action) {
  return !is_wait(action) && action.category != name_of(Op::evaluate) &&
         action.category != name_of(Op::save);
}

std::size_t lane_in(const TracedAction& action) {
  return static_cast<std::size_t>(action.block) - 1;
}

using TurnRange = std::pair<std::int64_t, std::int64_t>;  // without the end

/// All turns of the trace. `pauses`: turns before which something else was
/// done.
TurnRange all_turns_in(const TraceFile& trace, std::set<std::int64_t>& pauses) {
  TurnRange turns{std::numeric_limits<std::int64_t>::max(), 0};
  for (const TracedAction& action : trace.actions) {
    if (action.category == name_of(Op::forward)) {
      turns.first = std::min(turns.first, action.turn);
      turns.second = std::max(turns.second, action.turn + 1);
    } else if (!is_training(action) && !is_wait(action)) {
      pauses.insert(action.turn);
    }
  }
  return {std::min(turns.first, turns.second), turns.second};
}

/// The most turns in a row between which nothing else was done, without those
/// in which the pipe gets going.
TurnRange steady_turns_in(const TraceFile& trace, const RunPlan& plan,
                          const std::string& path) {
  std::set<std::int64_t> pauses;
  const auto [first, last] = all_turns_in(trace, pauses);
  std::int64_t in_flight = 0;
  for (const BlockPlan& block : plan.blocks)
    in_flight = std::max(in_flight, turns_in_flight(block));
  // The last turns may be those of a pipe that drains.
  pauses.insert(std::max(first, last - in_flight));
  TurnRange longest{first, first};
  std::int64_t begin = first;
  for (const std::int64_t pause : pauses) {
    const std::int64_t turns = pause - begin;
    constexpr std::int64_t kWarmUp = 5;
    const std::int64_t warm = begin + std::min(in_flight + kWarmUp, turns / 2);
    if (pause - warm > longest.second - longest.first) longest = {warm, pause};
    begin = std::max(begin, pause);
  }
  if (longest.second - longest.first < kLeast)
    throw UserError(
        "{}: shows too few turns in a row to learn from, {}; record more with "
        "trace.turns, and evaluate less often",
        path, longest.second - longest.first);
  return longest;
}

/// Slices of one kind, block by block, in the order of time.
class Lanes {
 public:
  Lanes(const TraceFile& trace, bool (*are)(const TracedAction&)) {
    for (std::size_t i = 0; i < trace.actions.size(); ++i)
      if (are(trace.actions[i])) lanes_[trace.actions[i].block].push_back(i);
    for (auto& [block, lane] : lanes_)
      std::sort(lane.begin(), lane.end(), [&](auto left, auto right) {
        return trace.actions[left].start < trace.actions[right].start;
      });
    actions_ = &trace.actions;
  }

  /// Place of the block's last action that has begun by then.
  std::optional<std::size_t> at(int block, double time) const {
    const auto lane = lanes_.find(block);
    if (lane == lanes_.end()) return std::nullopt;
    const auto after = std::upper_bound(
        lane->second.begin(), lane->second.end(), time,
        [&](double now, std::size_t i) { return now < (*actions_)[i].start; });
    if (after == lane->second.begin()) return std::nullopt;
    return *(after - 1);
  }

 private:
  std::map<int, std::vector<std::size_t>> lanes_;
  const std::vector<TracedAction>* actions_ = nullptr;
};

constexpr std::string_view kForRoom = "wait for room towards block ";

/// Whether the one that it is for waits for this very block: so there is room,
/// and it is sending that takes long.
bool is_sending(const TracedAction& wait, const Lanes& waits,
                const TraceFile& trace) {
  if (!wait.name.starts_with(kForRoom)) return false;
  int peer = 0;
  const char* end = wait.name.data() + wait.name.size();
  std::from_chars(wait.name.data() + kForRoom.size(), end, peer);
  const auto place = waits.at(peer, wait.start);
  if (!place) return false;
  const TracedAction& other = trace.actions[*place];
  return other.end > wait.start &&
         other.name.ends_with(fmt::format(" of block {}", wait.block));
}

/// What each action waited, by its place among the actions.
std::vector<double> waits_in(const TraceFile& trace) {
  const Lanes waits(trace, is_wait);
  const Lanes actions(
      trace, [](const TracedAction& action) { return !is_wait(action); });
  std::vector<double> seconds(trace.actions.size());
  for (const TracedAction& wait : trace.actions) {
    if (!is_wait(wait) || is_sending(wait, waits, trace)) continue;
    const auto place = actions.at(wait.block, (wait.start + wait.end) / 2);
    if (place) seconds[*place] += wait.end - wait.start;
  }
  return seconds;
}

/// Seconds that each action of a block took.
using TimesOfBlock = Variation;

std::optional<Op> op_of(const TracedAction& action) {
  for (const OpRow& row : op_rows())
    if (action.category == row.name) return row.op;
  return std::nullopt;
}

double mean_of_times(const std::vector<double>& times) {
  if (times.empty()) return 0;
  return std::accumulate(times.begin(), times.end(), 0.) /
         static_cast<double>(times.size());
}

BlockCosts costs_of(const TimesOfBlock& times) {
  BlockCosts costs{.replay = 0};
  for (const OpRow& row : op_rows())
    costs.seconds[row.op] = mean_of_times(times[row.op]);
  return costs;
}

Variation variation_of(TimesOfBlock times) {
  for (std::vector<double>& of_kind : times) {
    const double mean = mean_of_times(of_kind);
    for (double& seconds : of_kind) seconds = mean > 0 ? seconds / mean : 1;
  }
  return times;
}

/// Mean latency of each boundary's messages that were sent while the neighbour
/// waited for them.
std::vector<double> latencies_in(const TraceFile& trace,
                                 std::size_t boundaries) {
  constexpr double kSame = 2e-6;  // s: a clock's step and rounding
  const Lanes actions(
      trace, [](const TracedAction& action) { return !is_wait(action); });
  std::map<int, std::vector<const TracedAction*>> waits;
  for (const TracedAction& action : trace.actions)
    if (is_wait(action)) waits[action.block].push_back(&action);
  std::vector<std::vector<double>> seconds(boundaries);
  for (const TracedMessage& message : trace.messages) {
    const auto& of_block = waits[message.to];
    const bool was_waited_for = std::any_of(
        of_block.begin(), of_block.end(), [&](const TracedAction* wait) {
          return std::abs(wait->end - message.taken) < kSame &&
                 wait->start <= message.sent;
        });
    const auto boundary =
        static_cast<std::size_t>(std::min(message.from, message.to)) - 1;
    const auto sender = actions.at(message.from, message.sent);
    if (was_waited_for && sender && boundary < boundaries)
      seconds[boundary].push_back(message.taken - trace.actions[*sender].end);
  }
  std::vector<double> means;
  means.reserve(boundaries);
  for (const std::vector<double>& each : seconds)
    means.push_back(mean_of_times(each));
  return means;
}

/// End of the block's action before each one, by the place of the action; its
/// own start where none was before it.
std::vector<double> ends_before(const TraceFile& trace) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < trace.actions.size(); ++i)
    if (!is_wait(trace.actions[i])) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](auto left, auto right) {
    return trace.actions[left].start < trace.actions[right].start;
  });
  std::vector<double> before(trace.actions.size());
  std::map<int, double> ends;
  for (const std::size_t i : order) {
    const TracedAction& action = trace.actions[i];
    const auto end = ends.find(action.block);
    before[i] =
        end == ends.end() ? action.start : std::min(action.start, end->second);
    ends[action.block] = action.end;
  }
  return before;
}

bool is_looked_at(const TracedAction& action, const RecordedRun& run) {
  return is_training(action) && action.turn >= run.first_turn &&
         action.turn < run.end_turn;
}

/// Seconds from when all blocks have done the turns before to when all have
/// done these.
double seconds_in(const TraceFile& trace, const RecordedRun& run) {
  double start = 0;
  double end = 0;
  for (const TracedAction& action : trace.actions) {
    if (!is_training(action)) continue;
    if (action.turn < run.first_turn) start = std::max(start, action.end);
    if (action.turn < run.end_turn) end = std::max(end, action.end);
  }
  return end - start;
}

void check_blocks(const TraceFile& trace, std::size_t blocks,
                  const std::string& path) {
  for (const TracedAction& action : trace.actions)
    if (lane_in(action) >= blocks)
      throw UserError("{}: has a block {}, the run's config only {}", path,
                      action.block, blocks);
}

}  // namespace

RecordedRun recorded_run(const TraceFile& trace, const RunPlan& plan,
                         const std::string& path, bool is_busy_between) {
  const std::size_t blocks = plan.blocks.size();
  check_blocks(trace, blocks, path);
  RecordedRun run;
  std::tie(run.first_turn, run.end_turn) = steady_turns_in(trace, plan, path);
  const double all = seconds_in(trace, run);
  run.seconds_per_turn =
      all / static_cast<double>(run.end_turn - run.first_turn);
  const std::vector<double> waits = waits_in(trace);
  const std::vector<double> starts =
      is_busy_between ? ends_before(trace) : std::vector<double>();
  std::vector<TimesOfBlock> times(blocks);
  run.utilisation.resize(blocks);
  for (std::size_t i = 0; i < trace.actions.size(); ++i) {
    const TracedAction& action = trace.actions[i];
    const auto op = op_of(action);
    if (!op || !is_looked_at(action, run)) continue;
    const double start = is_busy_between ? starts[i] : action.start;
    const double seconds = std::max(0., action.end - start - waits[i]);
    times[lane_in(action)][*op].push_back(seconds);
    if (all > 0) run.utilisation[lane_in(action)] += seconds / all;
  }
  for (const TimesOfBlock& of_block : times) {
    run.blocks.push_back(costs_of(of_block));
    run.variation.push_back(variation_of(of_block));
  }
  run.latency = latencies_in(trace, blocks - 1);
  return run;
}

}  // namespace sluice::planner
