#include "experiments/virtual_clock.h"

#include "lib/base/error.h"

namespace sluice {

VirtualClock::VirtualClock(const Experiment& experiment, const Costs& costs,
                           const std::string& folder)
    : experiment_(experiment),
      costs_(costs),
      busy_(experiment.plans.front().blocks.size()) {
  if (experiment.traced.count == 0) return;
  const std::string path = folder + "/trace.json";
  file_.open(path);
  if (!file_) throw UserError("{}: can't be written", path);
  trace_.emplace(file_, experiment.plans);
}

void VirtualClock::watch(const TimedAction& timed) {
  const Action& action = timed.action;
  if (trace_ && experiment_.traced.contain(action.turn)) trace_->write(timed);
  if (timed.block == 1 && action.kind == ActionKind::forward) ++turns_;
  busy_[static_cast<std::size_t>(timed.block) - 1] += timed.end - timed.start;
}

void VirtualClock::report(double seconds, Sink& sink) const {
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
  sink.write(run);
  for (std::size_t k = 0; k < busy_.size(); ++k) {
    Record block;
    block.set("kind", "clock");
    block.set("block", static_cast<std::int64_t>(k) + 1);
    block.set("busy_s", busy_[k]);
    block.set("utilisation", busy_[k] / seconds);
    sink.write(block);
  }
}

}  // namespace sluice
