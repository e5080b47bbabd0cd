#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/config.h"

namespace sluice {

/// The shape of a learning rate after its warm-up.
enum class RateSchedule : std::uint8_t { constant, step, cosine };
std::string name_of(RateSchedule schedule);

/// The learning rate as a function of the turn alone, whatever batch is
/// applied.
struct LearningRate {
  double base = 0.1;
  RateSchedule schedule = RateSchedule::constant;
  double warmup_epochs = 0;             ///< linear from 0
  std::vector<double> milestones = {};  ///< step: epochs at which it drops
  double factor = 0.1;                  ///< step: what it drops by
  double final_rate = 0;                ///< cosine: where it ends
  std::int64_t for_batch = 0;           ///< samples; 0: whatever the batch

  void describe(Fields& fields);
  /// Scales the rates to turns of so many samples, where they are given for
  /// others (Goyal et al. 2017, section 2.1: linear scaling).
  void scale_to(std::int64_t batch);

  /// The rate of a turn, in a run of `turns` turns with `turns_per_epoch`.
  /// Turns of a drain keep the last rate.
  double at(std::int64_t turn, std::int64_t turns,
            std::int64_t turns_per_epoch) const;
};

}  // namespace sluice
