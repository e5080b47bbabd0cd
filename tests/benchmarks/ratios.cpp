#include "tests/benchmarks/ratios.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

/// Between two of them, linearly.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above],
                   place - static_cast<double>(below));
}

}  // namespace

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

std::string Ratios::text() const {
  return fmt::format("{:.2f} ({:.2f}-{:.2f})", median(values),
                     quantile(values, 0.25), quantile(values, 0.75));
}

std::string Ratios::text_with_range() const {
  return fmt::format("{:.2f} [{:.2f}-{:.2f}]", median(values),
                     quantile(values, 0), quantile(values, 1));
}

}  // namespace sluice
