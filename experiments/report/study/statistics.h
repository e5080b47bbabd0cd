#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace sluice::report {

/// What the seeds of a cell say about one figure.
struct Spread {
  double mean = std::numeric_limits<double>::quiet_NaN();
  /// The sample's standard deviation (divided by n - 1); NaN when n < 2.
  double std = std::numeric_limits<double>::quiet_NaN();
  int n = 0;
};
Spread spread_of(std::span<const double> values);

/// A cell that competes for the best figure of a column.
struct Competitor {
  Spread spread = {};
  /// False for a cell that lost seeds: what is left of it may be the lucky
  /// ones. Others must be better than it all the same.
  bool may_win = true;
};

/// The competitor whose mean is better than that of every other by more than
/// the standard deviation of either; nothing when there is none. So no
/// competitor wins alone, nor where a standard deviation is unknown.
std::optional<std::size_t> clear_winner(std::span<const Competitor> all,
                                        bool higher_is_better);

/// "97.31 ± 0.12 (3)" with as many digits after the point; "97.31 (1)" where
/// there is no deviation, "-" where there is nothing.
std::string text_of(const Spread& spread, int digits);

}  // namespace sluice::report
