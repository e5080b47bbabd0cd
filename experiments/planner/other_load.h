#pragma once

#include <string_view>

#include "lib/metrics/time_spent.h"

namespace sluice::planner {

/// What programs besides this one, and the children that it has waited for,
/// take of the machine's cores.
class OtherLoad {
 public:
  OtherLoad();

  /// How many cores they kept busy on average since this was made; of a virtual
  /// machine also what its host withheld. 0 where the system doesn't tell.
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
