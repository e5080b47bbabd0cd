#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/schedules/plan/epochs.h"

namespace sluice {

/// The shape of a learning rate after its warm-up.
enum class RateSchedule : std::uint8_t {
  constant,
  step,
  cosine,
  linear,
  exponential,
  warmup_stable_decay
};
std::string name_of(RateSchedule schedule);
/// Whether the rate of a turn depends on how long the run is.
bool depends_on_end(RateSchedule schedule);
/// Whether it depends on how long an epoch is, whatever the warm-up.
bool depends_on_epochs(RateSchedule schedule);

using RateScheduleRow = Row<RateSchedule>;
/// All schedules, by the name in `optimizer.schedule`.
std::span<const RateScheduleRow> rate_schedules();

/// The learning rate as a function of the turn alone, whatever batch is
/// applied.
struct LearningRate {
  double base = 0.1;
  RateSchedule schedule = RateSchedule::constant;
  double warmup_epochs = 0;             ///< linear from 0
  std::int64_t warmup_turns = 0;        ///< above 0 it replaces warmup_epochs
  std::vector<double> milestones = {};  ///< step: epochs at which it drops
  double factor = 0.1;                  ///< step: what it drops by
  double decay = 0.95;                  ///< exponential: factor of an epoch
  double cooldown = 0.2;  ///< warmup_stable_decay: share of the run's turns
  double final_rate = 0;  ///< where cosine, linear and the cooldown end
  std::int64_t for_batch = 0;  ///< samples; 0: whatever the batch

  void describe(Fields& fields);
  /// Scales the rates to turns of so many samples, where they are given for
  /// others (Goyal et al. 2017, section 2.1: linear scaling).
  void scale_to(std::int64_t batch);

  /// The rate of a turn, in a run of `turns` turns. Turns of a drain keep the
  /// last rate.
  double at(std::int64_t turn, std::int64_t turns, const Epochs& epochs) const;

 private:
  void describe_schedule(Fields& fields);
};

}  // namespace sluice
