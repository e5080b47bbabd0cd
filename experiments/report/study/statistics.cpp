#include "experiments/report/study/statistics.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace sluice::report {
namespace {

/// By how much `a` is better than `b`. One that diverged is worse than any.
double advantage(const Spread& a, const Spread& b, bool higher_is_better) {
  if (std::isnan(b.mean)) return std::numeric_limits<double>::infinity();
  return higher_is_better ? a.mean - b.mean : b.mean - a.mean;
}

bool clearly_beats(const Spread& a, const Spread& b, bool higher_is_better) {
  if (a.n < 2 || b.n < 2) return false;
  const double noise = std::max(a.std, std::isnan(b.std) ? 0 : b.std);
  return advantage(a, b, higher_is_better) > noise;
}

}  // namespace

Spread spread_of(std::span<const double> values) {
  Spread spread{.n = static_cast<int>(values.size())};
  if (values.empty()) return spread;
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  spread.mean = sum / n;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values)
    squares += (value - spread.mean) * (value - spread.mean);
  spread.std = std::sqrt(squares / (n - 1));
  return spread;
}

std::optional<std::size_t> clear_winner(std::span<const Competitor> all,
                                        bool higher_is_better) {
  std::optional<std::size_t> best;
  std::size_t competing = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].spread.n == 0) continue;
    ++competing;
    if (std::isfinite(all[i].spread.mean) &&
        (!best ||
         advantage(all[i].spread, all[*best].spread, higher_is_better) > 0))
      best = i;
  }
  if (!best || competing < 2 || !all[*best].may_win) return std::nullopt;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != *best && all[i].spread.n > 0 &&
        !clearly_beats(all[*best].spread, all[i].spread, higher_is_better))
      return std::nullopt;
  return best;
}

std::string text_of(const Spread& spread, int digits) {
  if (spread.n == 0) return "-";
  if (spread.n == 1) return fmt::format("{:.{}f} (1)", spread.mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f} ({})", spread.mean, digits, spread.std,
                     digits, spread.n);
}

}  // namespace sluice::report
