#include "lib/metrics/accuracy_text.h"

#include <cmath>

#include <fmt/format.h>

namespace sluice {

std::string with_accuracy(std::optional<double> accuracy) {
  if (!accuracy || std::isnan(*accuracy)) return "";
  return fmt::format(", accuracy {:.2f} %", 100 * *accuracy);
}

}  // namespace sluice
