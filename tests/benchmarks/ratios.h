#pragma once

#include <string>
#include <vector>

#include "lib/base/quantile.h"

namespace sluice {

/// Ratios of figures taken in one run, side by side: one per round.
struct Ratios {
  std::vector<double> values = {};

  /// The median, with the quartiles: "1.02 (0.98-1.05)".
  std::string text() const;
  /// The median, with the least and the greatest: "1.02 [0.90-1.11]".
  std::string text_with_range() const;
};

}  // namespace sluice
