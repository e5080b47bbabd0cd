#include "experiments/report/study/target.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include <fmt/format.h>

#include "lib/base/error.h"

namespace sluice::report {

std::string Target::text() const {
  return is_accuracy ? fmt::format("{:g} %", 100 * value)
                     : fmt::format("{:g}", value);
}

std::string Target::condition() const {
  return is_accuracy ? fmt::format("with a test accuracy of {} or more", text())
                     : fmt::format("with a test loss of {} or less", text());
}

Target target_from(std::string_view text) {
  std::string_view number = text;
  const bool is_accuracy = number.ends_with('%');
  if (is_accuracy) number.remove_suffix(1);
  while (number.ends_with(' ')) number.remove_suffix(1);
  double value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value);
  const bool is_number = error == std::errc() &&
                         end == number.data() + number.size() &&
                         std::isfinite(value);
  if (!is_number || (is_accuracy && (value <= 0 || value > 100)))
    throw UserError(
        "--target '{}': give a test loss, such as 0.5, or an accuracy above 0 "
        "and up to 100 %, such as 97%",
        text);
  return {.value = is_accuracy ? value / 100 : value,
          .is_accuracy = is_accuracy};
}

std::optional<RunPoint> first_at(const RunSeries& series,
                                 const Target& target) {
  const auto found =
      std::find_if(series.begin(), series.end(), [&](const RunPoint& point) {
        return target.is_accuracy ? point.value >= target.value
                                  : point.value <= target.value;
      });
  if (found == series.end()) return std::nullopt;
  return *found;
}

}  // namespace sluice::report
