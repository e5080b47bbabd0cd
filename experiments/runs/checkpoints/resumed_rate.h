#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"

namespace sluice {

/// Change of the learning rate of a run that is continued with another length
/// or other options.
struct RateChange {
  std::int64_t turn = 0;  ///< the first one that is trained now
  std::int64_t turns_before = 0;
  std::int64_t turns = 0;
  RateSchedule schedule = RateSchedule::constant;  ///< of block 1
  std::vector<double> before = {};  ///< the rate of that turn by block
  std::vector<double> after = {};

  /// Whether the rate, or its target, has changed.
  bool is_any() const;
};

/// `before` is the config that the run has had. Throws UserError when it can't
/// be read.
RateChange rate_change(const ConfigNode& before, const Experiment& now,
                       std::int64_t turn);

/// The change as one line.
std::string text_of(const RateChange& change);

}  // namespace sluice
