#include "lib/metrics/accuracy_text.h"

#include <cmath>

#include <fmt/format.h>

namespace sluice {

std::string with_accuracy(std::optional<double> accuracy) {
  if (!accuracy || std::isnan(*accuracy)) return "";
  return fmt::format(", accuracy {:.2f} %", 100 * *accuracy);
}

std::string with_r2(std::optional<double> r2) {
  if (!r2 || std::isnan(*r2)) return "";
  return fmt::format(", R² {:.4f}", *r2);
}

std::string with_bits(std::optional<double> bits_per_byte) {
  if (!bits_per_byte) return "";
  return fmt::format(", {:.4f} bits per byte", *bits_per_byte);
}

}  // namespace sluice
