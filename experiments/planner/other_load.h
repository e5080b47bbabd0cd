#pragma once

#include <string_view>

#include "lib/metrics/time_spent.h"

namespace sluice::planner {

/// Load on the machine's cores by programs other than this one and the children
/// that it has waited for.
class OtherLoad {
 public:
  OtherLoad();

  /// Mean number of cores that other programs kept busy since this object was
  /// made; of a virtual machine also what its host withheld. 0 where the system
  /// doesn't tell.
  double cores() const;

 private:
  SteadyTime start_ = std::chrono::steady_clock::now();
  double others_before_;
};

/// Seconds for which all cores together have been busy, from the text of
/// /proc/stat, which counts ticks (proc_stat(5)); 0 when `proc_stat` is no such
/// text.
double busy_seconds(std::string_view proc_stat, double ticks_per_second);

}  // namespace sluice::planner
