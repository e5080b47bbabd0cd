#include "tests/benchmarks/ratios.h"

#include <fmt/format.h>

namespace sluice {

std::string Ratios::text() const {
  return fmt::format("{:.2f} ({:.2f}-{:.2f})", median(values),
                     quantile(values, 0.25), quantile(values, 0.75));
}

std::string Ratios::text_with_range() const {
  return fmt::format("{:.2f} [{:.2f}-{:.2f}]", median(values),
                     quantile(values, 0), quantile(values, 1));
}

}  // namespace sluice
