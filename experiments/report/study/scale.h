#pragma once

#include <string>
#include <vector>

namespace sluice::report {

/// A prefix for large numbers, and what they are divided by.
struct Scale {
  double divisor = 1;
  std::string prefix = {};
};
Scale decimal_scale(double largest);  ///< "", "k", "M", "G", "T", "P", "E"
Scale binary_scale(double largest);   ///< "", "Ki", "Mi", "Gi", "Ti"

/// A mark on an axis.
struct Tick {
  double at = 0;
  std::string text = {};
};

/// About `count` round numbers from low to high, all with the same number of
/// digits and the same prefix ("20k"). Few enough for short texts.
std::vector<Tick> linear_ticks(double low, double high, int count);

/// Powers of ten in [low, high], with 2 and 5 times those where they are few.
std::vector<Tick> log_ticks(double low, double high);

}  // namespace sluice::report
