#include "experiments/runs/virtual_clock.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/schedules/free_running.h"

namespace sluice {
namespace {

/// A block may be ahead of the others by less.
constexpr std::int64_t kGradientsKept = 4096;

std::string gradient_key(int block, std::int64_t batch) {
  return fmt::format("gradient_{}_{}", block, batch);
}

std::string block_key(std::string_view what, int block) {
  return fmt::format("{}_{}", what, block);
}

/// Gradients that may be on their way at a checkpoint of that turn. For blocks
/// that run free these are all that could be: the checkpoint itself knows
/// which.
std::vector<Transfer> on_their_way(const RunPlan& plan, std::int64_t turn) {
  if (!runs_free(plan)) return in_flight(plan, turn, 0);
  std::vector<Transfer> all;
  for (const BlockPlan& block : plan.blocks)
    for (std::int64_t batch = std::max<std::int64_t>(0, turn - block.in_flight);
         batch < turn; ++batch)
      all.push_back(
          {MessageKind::gradient, block.block + 1, block.block, batch});
  return all;
}

SavedClock clock_in(const Record& saved, const RunPlan& plan) {
  SavedClock clock;
  if (saved.values.empty()) return clock;
  for (const BlockPlan& block : plan.blocks)
    clock.blocks.push_back(saved.number(block_key("at", block.block), 0));
  for (const Transfer& sent : on_their_way(plan, saved.integer("turn"))) {
    const std::string key = gradient_key(sent.to, sent.batch);
    if (saved.find(key) != nullptr)
      clock.gradients[{sent.to, sent.batch}] = saved.number(key, 0);
  }
  return clock;
}

}  // namespace

VirtualClock::VirtualClock(const Experiment& experiment, const Costs& costs,
                           std::string folder, std::shared_ptr<Sink> sink,
                           const Record& saved)
    : experiment_(experiment),
      costs_(costs),
      folder_(std::move(folder)),
      sink_(std::move(sink)),
      start_(clock_in(saved, experiment.plans.at(static_cast<std::size_t>(
                                 saved.integer("phase"))))),
      turns_(saved.integer("turns")) {
  for (const BlockPlan& block : experiment.plans.front().blocks)
    busy_.push_back(saved.number(block_key("busy", block.block), 0));
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

void VirtualClock::watch(const TimedAction& timed) {
  const Action& action = timed.action;
  trace(timed);
  if (timed.block == 1 && action.op == Op::forward &&
      experiment_.micro_batches.ends_turn(action.batch))
    ++turns_;
  busy_[static_cast<std::size_t>(timed.block) - 1] += timed.end - timed.start;
  const bool sends_down =
      action.op == Op::backward || action.op == Op::backward_input;
  if (sends_down && timed.block > 1) {
    gradients_[{timed.block - 1, action.batch}] = timed.arrival;
    gradients_.erase({timed.block - 1, action.batch - kGradientsKept});
  }
  if (action.op == Op::save) save(timed);
}

void VirtualClock::save(const TimedAction& checkpoint) {
  const std::int64_t turn = checkpoint.action.turn;
  Record& record = saving_[turn];
  if (checkpoint.block == 1) record.set("turns", turns_);
  record.set(block_key("at", checkpoint.block), checkpoint.end);
  record.set(block_key("busy", checkpoint.block),
             busy_[static_cast<std::size_t>(checkpoint.block) - 1]);
  for (std::size_t k = 1; k <= busy_.size(); ++k)
    if (record.find(block_key("at", static_cast<int>(k))) == nullptr) return;
  record.set("kind", "saved_clock");
  record.set("turn", turn);
  record.set("phase", checkpoint.action.phase);
  const RunPlan& plan =
      experiment_.plans.at(static_cast<std::size_t>(checkpoint.action.phase));
  for (const Transfer& sent : on_their_way(plan, turn))
    if (const auto came = gradients_.find({sent.to, sent.batch});
        came != gradients_.end())
      record.set(gradient_key(sent.to, sent.batch), came->second);
  sink_->write(record);
  saving_.erase(turn);
}

void VirtualClock::report(double seconds) const {
  if (seconds <= 0) return;
  const auto turns = static_cast<double>(turns_);
  Record run;
  run.set("kind", "clock");
  run.set("seconds", seconds);
  run.set("samples_per_second",
          turns * samples_per_turn(experiment_) / seconds);
  run.set("speed_up",
          turns * seconds_in_one_block(costs_, experiment_.plans.front()) /
              seconds);
  sink_->write(run);
  for (std::size_t k = 0; k < busy_.size(); ++k) {
    Record block;
    block.set("kind", "clock");
    block.set("block", static_cast<std::int64_t>(k) + 1);
    block.set("busy_s", busy_[k]);
    block.set("utilisation", busy_[k] / seconds);
    sink_->write(block);
  }
}

Record saved_clock_in(const std::vector<Record>& history, std::int64_t turn) {
  Record found;
  for (const Record& record : history)
    if (record.text("kind") == "saved_clock" && record.integer("turn") == turn)
      found = record;
  return found;
}

}  // namespace sluice
