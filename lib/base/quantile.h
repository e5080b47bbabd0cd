#pragma once

#include <vector>

namespace sluice {

/// `share`, 0..1, of the values are below it; between two of them, linearly.
/// There is at least one value.
double quantile(std::vector<double> values, double share);

inline double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

}  // namespace sluice
