#include "experiments/runs/sinks/virtual_clock.h"

#include <algorithm>
#include <iterator>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/workers/seat_log.h"

namespace sluice {
namespace {

/// A block may be ahead of the others by less.
constexpr std::int64_t kGradientsKept = 4096;

/// Gradients that may be on their way at a checkpoint of that turn. For blocks
/// that run free these are all that could be: the checkpoint itself knows
/// which.
std::vector<Transfer> on_their_way(const RunPlan& plan, std::int64_t turn) {
  if (!runs_free(plan)) return in_flight(plan, turn, 0);
  std::vector<Transfer> all;
  for (const BlockPlan& block : plan.blocks)
    for (std::int64_t batch =
             std::max<std::int64_t>(0, turn - block.free.in_flight);
         batch < turn; ++batch)
      all.push_back(
          {MessageKind::gradient, block.seat() + 1, block.seat(), batch});
  return all;
}

SavedClock clock_in(const records::SavedClock& saved, const RunPlan& plan) {
  // Time at which the last replica had ended: new ones begin then.
  double end = 0;
  for (const auto& [block, at, busy] : saved.blocks) end = std::max(end, at);
  SavedClock clock{.seats = std::vector<double>(plan.blocks.size(), end)};
  for (const auto& [block, at, busy] : saved.blocks)
    if (block >= 1 && block <= std::ssize(clock.seats))
      clock.seats[static_cast<std::size_t>(block) - 1] = at;
  for (const Transfer& sent : on_their_way(plan, saved.turn))
    if (const auto came = saved.gradients.find({sent.to, sent.batch});
        came != saved.gradients.end())
      clock.gradients.insert(*came);
  return clock;
}

}  // namespace

VirtualClock::VirtualClock(const Experiment& experiment, const Costs& costs,
                           std::string folder, std::shared_ptr<Sink> sink,
                           const std::optional<records::SavedClock>& saved)
    : experiment_(experiment),
      costs_(costs),
      folder_(std::move(folder)),
      sink_(std::move(sink)),
      seats_(experiment.seat_names()),
      busy_(experiment.plans.front().blocks.size()) {
  if (!saved) return;
  start_ = clock_in(
      *saved, experiment.plans.at(static_cast<std::size_t>(saved->phase)));
  turns_ = saved->turns;
  for (const auto& [block, at, busy] : saved->blocks)
    if (block >= 1 && block <= std::ssize(busy_))
      busy_[static_cast<std::size_t>(block) - 1] = busy;
}

/// Made with its first action: what an earlier part has drawn of turns before
/// stays.
void VirtualClock::trace(const TimedAction& timed) {
  if (!experiment_.traced.contain(timed.action.turn)) return;
  if (!trace_) {
    const std::string path = folder_ + "/trace.json";
    file_.open(path);
    if (!file_) throw UserError("{}: can't be written", path);
    trace_.emplace(file_, experiment_.plans);
  }
  trace_->write(timed);
}

const RunPlan& VirtualClock::plan_of(const Action& action) const {
  return experiment_.plans.at(static_cast<std::size_t>(action.phase));
}

void VirtualClock::watch(const TimedAction& timed) {
  const Action& action = timed.action;
  trace(timed);
  if (timed.seat == 1 && action.op == Op::forward &&
      plan_of(action).blocks.front().micro_batches.ends_turn(action.batch))
    ++turns_;
  by_block(busy_, timed.seat) += timed.end - timed.start;
  const int block = seats_.block_of(timed.seat);
  const bool sends_down =
      action.op == Op::backward || action.op == Op::backward_input;
  if (sends_down && block > 1) {
    const int below =
        neighbour_with(plan_of(action), timed.seat, Direction::below,
                       MessageKind::gradient, action.batch);
    gradients_[{below, action.batch}] = timed.arrival;
    gradients_.erase({below, action.batch - kGradientsKept});
  }
  if (action.op == Op::save) save(timed);
}

void VirtualClock::save(const TimedAction& checkpoint) {
  const std::int64_t turn = checkpoint.action.turn;
  records::SavedClock& saved = saving_[turn];
  if (checkpoint.seat == 1) saved.turns = turns_;
  saved.blocks.push_back(
      {checkpoint.seat, checkpoint.end, by_block(busy_, checkpoint.seat)});
  if (saved.blocks.size() < busy_.size()) return;
  saved.turn = turn;
  saved.phase = checkpoint.action.phase;
  const RunPlan& plan = plan_of(checkpoint.action);
  for (const Transfer& sent : on_their_way(plan, turn))
    if (const auto came = gradients_.find({sent.to, sent.batch});
        came != gradients_.end())
      saved.gradients.insert(*came);
  sink_->write(to_record(saved));
  saving_.erase(turn);
}

void VirtualClock::report(double seconds) const {
  if (seconds <= 0) return;
  const auto turns = static_cast<double>(turns_);
  sink_->write(records::Clock{
      .seconds = seconds,
      .samples_per_second = turns * samples_per_turn(experiment_) / seconds,
      .speed_up = turns * static_cast<double>(experiment_.replicas.count) *
                  seconds_in_one_block(costs_, experiment_.plans.front()) /
                  seconds});
  for (std::size_t k = 0; k < busy_.size(); ++k)
    sink_->write(records::Clock{
        .block = seats_.block_of(static_cast<int>(k) + 1),
        .replica = replica_of(by_block(experiment_.plans.front().blocks,
                                       static_cast<int>(k) + 1)),
        .busy_s = busy_[k],
        .utilisation = busy_[k] / seconds});
}

std::optional<records::SavedClock> saved_clock_in(
    const std::vector<Record>& history, std::int64_t turn) {
  std::optional<records::SavedClock> found;
  for (const Record& record : history)
    if (auto saved = records::saved_clock_from(record);
        saved && saved->turn == turn)
      found = std::move(saved);
  return found;
}

}  // namespace sluice
