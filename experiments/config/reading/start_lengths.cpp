// Checks of keys against the length of the run.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/reading/start_rows.h"
#include "experiments/config/tables/lengths.h"

namespace sluice::at_start {
namespace {

/// Turns between two drains of the pipe, with the windows that they have.
struct Stretch {
  std::size_t phase = 0;
  std::int64_t turns = 0;
  std::int64_t window = 1;
};

/// Up to a phase that begins at a measure, which may be any turn or none.
std::vector<Stretch> stretches_of(const Experiment& experiment) {
  const std::int64_t end = experiment.length.turns;
  std::vector<Stretch> all;
  std::int64_t begin = 0;
  for (std::size_t phase = 0; phase < experiment.phases.size(); ++phase) {
    const auto& switches = experiment.length.switches;
    const bool is_timed =
        phase < switches.size() && !switches[phase].on_measure();
    const std::int64_t next =
        is_timed ? std::min(switches[phase].turn, end) : end;
    all.push_back(
        {phase, next - begin, experiment.accumulate_by_phase.at(phase)});
    begin = next;
    if (begin == end) break;
  }
  return all;
}

bool has_measured_phase(const Experiment& experiment) {
  const auto& switches = experiment.length.switches;
  return std::any_of(switches.begin(), switches.end(),
                     [](const Switch& each) { return each.on_measure(); });
}

std::int64_t updates_of(const Experiment& experiment) {
  std::int64_t updates = 0;
  for (const Stretch& stretch : stretches_of(experiment))
    updates += stretch.turns / stretch.window;
  return updates;
}

std::string key_of_window(const Stretch& stretch) {
  return stretch.phase == 0
             ? "accumulate.batches"
             : fmt::format("timetable[{}].accumulate", stretch.phase - 1);
}

/// Blocks that run free, with windows of their own longer than the run.
StartFaults blocks_without_update(const Experiment& experiment) {
  StartFaults faults;
  const std::int64_t turns = experiment.length.turns;
  for (std::size_t i = 0; i < experiment.accumulate_by_block.size(); ++i)
    if (experiment.accumulate_by_block[i] > turns)
      faults.push_back(
          {"accumulate.by_block",
           fmt::format("block {} makes an update of {} turns, and the run has "
                       "{}: it makes none; set {} or less, or train longer",
                       i + 1, experiment.accumulate_by_block[i], turns,
                       turns)});
  return faults;
}

std::string turns_text(std::int64_t turns) {
  return turns == 1 ? "1 turn" : fmt::format("{} turns", turns);
}

}  // namespace

StartFaults no_update(const Experiment& experiment) {
  const std::int64_t turns = experiment.length.turns;
  if (turns == 0) return {};  // what it begins with is evaluated
  if (!experiment.accumulate_by_block.empty())
    return blocks_without_update(experiment);
  const std::vector<std::int64_t>& windows = experiment.accumulate_by_phase;
  const bool may_fit =
      has_measured_phase(experiment) &&
      *std::min_element(windows.begin(), windows.end()) <= turns;
  if (updates_of(experiment) > 0 || may_fit) return {};
  const std::vector<Stretch> stretches = stretches_of(experiment);
  const Stretch longest = *std::max_element(
      stretches.begin(), stretches.end(),
      [](const Stretch& a, const Stretch& b) { return a.turns < b.turns; });
  return {{key_of_window(longest),
           fmt::format("an update is made of {}, and the run has {}: none is "
                       "made, and nothing is trained; set {} or less, or train "
                       "longer",
                       turns_text(longest.window), turns_text(turns),
                       longest.turns)}};
}

StartFaults turns_in_no_update(const Experiment& experiment) {
  StartFaults faults;
  if (!experiment.accumulate_by_block.empty() ||
      has_measured_phase(experiment) || updates_of(experiment) == 0)
    return faults;
  for (const Stretch& stretch : stretches_of(experiment)) {
    const std::int64_t rest = stretch.turns % stretch.window;
    if (rest == 0) continue;
    faults.push_back(
        {key_of_window(stretch),
         fmt::format("an update is made of {}, and {} of {} at the end {} in "
                     "none: {} or {} would all be applied",
                     turns_text(stretch.window), rest,
                     turns_text(stretch.turns), rest == 1 ? "is" : "are",
                     turns_text(stretch.turns - rest),
                     turns_text(stretch.turns - rest + stretch.window))});
  }
  return faults;
}

StartFaults stop_never_comes(const Experiment& experiment) {
  const RunLength& length = experiment.length;
  const std::int64_t patience = length.early_stop.patience;
  if (patience == 0) return {};
  if (length.evaluate_every.every == 0)
    return {{"early_stop.patience",
             fmt::format("{} evaluations without progress end the run, and "
                         "evaluate_every = 0 has one at the end only: set "
                         "evaluate_every",
                         patience)}};
  const std::int64_t before_end =
      length.evaluate_every.times_by(length.turns - 1);
  if (before_end > patience) return {};
  return {{"early_stop.patience",
           fmt::format("{} evaluations without progress end the run, and it "
                       "has {} before its end, the first of which is always "
                       "one: it never ends early; set {} or less, or a smaller "
                       "evaluate_every",
                       patience, before_end,
                       std::max<std::int64_t>(1, before_end - 1))}};
}

StartFaults phase_never_begins(const Experiment& experiment) {
  StartFaults faults;
  const RunLength& length = experiment.length;
  for (std::size_t i = 0; i < length.switches.size(); ++i) {
    const Switch& next = length.switches[i];
    if (next.on_measure() || next.turn < length.turns) continue;
    faults.push_back(
        {fmt::format("timetable[{}]", i),
         fmt::format("begins after turn {}, and the run ends after turn {}: it "
                     "never begins{}",
                     next.turn, length.turns,
                     i + 1 < length.switches.size()
                         ? ", nor does a phase behind it"
                         : "")});
    break;
  }
  return faults;
}

StartFaults milestone_never_comes(const Experiment& experiment) {
  const std::int64_t turns = experiment.length.turns;
  return of_optimizers(
      experiment, "schedule.milestones",
      [&](const OptimizerOptions& options) -> std::string {
        const LearningRate& rate = options.learning_rate;
        if (rate.schedule != RateSchedule::step) return "";
        if (rate.milestones.empty())
          return "schedule 'step' has none: the rate stays as it is; give the "
                 "epochs at which it drops";
        std::vector<double> never;
        for (const double epochs : rate.milestones)
          if (turn_after(epochs, experiment) >= turns) never.push_back(epochs);
        if (never.empty()) return "";
        return fmt::format(
            "the rate never drops at epoch {}: the run ends "
            "after turn {}, epoch {:.4g}",
            fmt::join(never, ", "), turns,
            static_cast<double>(turns) *
                static_cast<double>(experiment.replicas.count) /
                static_cast<double>(experiment.deals_per_epoch));
      });
}

StartFaults warm_up_never_ends(const Experiment& experiment) {
  const std::int64_t turns = experiment.length.turns;
  const auto text = [&](const OptimizerOptions& options,
                        bool in_turns) -> std::string {
    const LearningRate& rate = options.learning_rate;
    if ((rate.warmup_turns > 0) != in_turns || turns == 0) return "";
    const std::int64_t warm_up =
        in_turns ? rate.warmup_turns
                 : turn_after(rate.warmup_epochs, experiment);
    if (warm_up <= turns) return "";
    return fmt::format(
        "the rate rises for {}, and the run has {}: it ends at {:.3g}, below "
        "lr = {:g}; set a shorter warm-up, or train longer",
        turns_text(warm_up), turns_text(turns),
        rate.at(turns - 1, turns, epochs_of(experiment)), rate.base);
  };
  StartFaults faults = of_optimizers(
      experiment, "schedule.warmup_turns",
      [&](const OptimizerOptions& options) { return text(options, true); });
  for (StartFault& fault : of_optimizers(experiment, "schedule.warmup_epochs",
                                         [&](const OptimizerOptions& options) {
                                           return text(options, false);
                                         }))
    faults.push_back(std::move(fault));
  return faults;
}

StartFaults evaluated_at_the_end_only(const Experiment& experiment) {
  const RunLength& length = experiment.length;
  const double epochs = experiment.evaluate_every;
  if (epochs == Settings().evaluate_every || epochs == 0 ||
      length.evaluate_every.times_by(length.turns) > 0)
    return {};
  return {{"evaluate_every",
           fmt::format("{:g} epochs are {}, and the run has {}: it is "
                       "evaluated at its end only",
                       epochs, turns_text(turn_after(epochs, experiment)),
                       turns_text(length.turns))}};
}

StartFaults saved_at_the_end_only(const Experiment& experiment) {
  const RunLength& length = experiment.length;
  if (length.checkpoint_every.every == 0 ||
      length.checkpoint_every.times_by(length.turns) > 0)
    return {};
  const CheckpointSettings& saving = experiment.checkpoint;
  const bool in_turns = saving.every_turns > 0;
  return {
      {in_turns ? "checkpoint.every_turns" : "checkpoint.every",
       fmt::format("a checkpoint is saved every {}, and the run has {}: "
                   "one is saved at its end only",
                   turns_text(in_turns ? saving.every_turns
                                       : turn_after(saving.every, experiment)),
                   turns_text(length.turns))}};
}

StartFaults trace_never_begins(const Experiment& experiment) {
  const TracedTurns& traced = experiment.traced;
  if (traced.count == 0 || traced.first == 0 ||
      traced.first < experiment.length.turns)
    return {};
  return {{"trace.first",
           fmt::format("turn {} is beyond the run's {}: trace.json shows "
                       "nothing; set a smaller one",
                       traced.first, turns_text(experiment.length.turns))}};
}

StartFaults average_of_first_weights(const Experiment& experiment) {
  constexpr double kMost = 0.5;
  const auto updates = static_cast<double>(updates_of(experiment));
  return of_optimizers(
      experiment, "average",
      [&](const OptimizerOptions& options) -> std::string {
        if (options.average == 0 || updates == 0) return "";
        const double share = std::pow(options.average, updates);
        if (share <= kMost) return "";
        return fmt::format(
            "{:g} over {:g} updates: what is evaluated and saved at the end is "
            "{:.0f} % the first weights; set {:.3g} or less, or train longer",
            options.average, updates, 100 * share, std::pow(0.01, 1 / updates));
      });
}

}  // namespace sluice::at_start
