#include "experiments/report/study/scale.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace sluice::report {
namespace {

template <std::size_t N>
Scale scale_for(double largest, double step,
                const std::array<const char*, N>& prefixes) {
  Scale scale;
  std::size_t i = 0;
  while (i + 1 < N && largest >= step * scale.divisor) {
    scale.divisor *= step;
    ++i;
  }
  scale.prefix = prefixes[i];
  return scale;
}

/// 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

int digits_after_point(double step) {
  return std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0,
                    9);
}

}  // namespace

Scale decimal_scale(double largest) {
  return scale_for<7>(largest, 1000, {"", "k", "M", "G", "T", "P", "E"});
}

Scale binary_scale(double largest) {
  return scale_for<5>(largest, 1024, {"", "Ki", "Mi", "Gi", "Ti"});
}

std::vector<Tick> linear_ticks(double low, double high, int count) {
  if (!(high > low)) return {{low, fmt::format("{:.4g}", low)}};
  const double step = round_step((high - low) / count);
  const double largest = std::max(std::abs(low), std::abs(high));
  // 2000 is no longer than 2k.
  const Scale scale = largest >= 1e4 ? decimal_scale(largest) : Scale{};
  const int digits = digits_after_point(step / scale.divisor);
  std::vector<Tick> ticks;
  const auto first = static_cast<long>(std::ceil(low / step - 1e-6));
  const auto last = static_cast<long>(std::floor(high / step + 1e-6));
  for (long i = first; i <= last; ++i) {
    const double at = static_cast<double>(i) * step;
    ticks.push_back({at, fmt::format("{:.{}f}{}", at / scale.divisor, digits,
                                     i == 0 ? "" : scale.prefix)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high) {
  std::vector<Tick> ticks;
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  const bool is_wide = last - first > 3;
  for (int power = first; power <= last; ++power)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = factor * std::pow(10, power);
      if (is_wide && factor != 1.0) continue;
      if (at >= low * (1 - 1e-9) && at <= high * (1 + 1e-9))
        ticks.push_back({at, fmt::format("{:g}", at)});
    }
  return ticks;
}

}  // namespace sluice::report
