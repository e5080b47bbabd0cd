#include "experiments/program/number_options.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

namespace sluice {
namespace {

/// A check of a number by `is_allowed`, which refuses infinities and NaN too.
CLI::Validator number(const char* name, const char* allowed,
                      bool (*is_allowed)(double)) {
  return {[allowed, is_allowed](std::string& text) {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            return is_number && std::isfinite(value) && is_allowed(value)
                       ? std::string()
                       : fmt::format("'{}' is no number {}", text, allowed);
          },
          name};
}

}  // namespace

CLI::Validator positive_number() {
  return number("POSITIVE", "above 0", [](double value) { return value > 0; });
}

CLI::Validator number_from_zero() {
  return number("NONNEGATIVE", "from 0 up",
                [](double value) { return value >= 0; });
}

}  // namespace sluice
