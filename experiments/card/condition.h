#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// What must hold between the figures of a card's runs: "backprop > dni",
/// "k16 < k1 - 3", "local < 2.5".
struct Condition {
  std::string text = {};
  std::string left = {};   ///< a run
  bool is_less = false;    ///< <, else >
  std::string right = {};  ///< a run; empty: `offset` is all
  double offset = 0;       ///< added to the right side

  /// right_figure: ignored when the right side names no run. False when a
  /// figure is NaN.
  bool holds(double left_figure, double right_figure) const;
};

/// Words are separated by spaces. Throws UserError for what is no condition.
Condition condition_of(std::string_view text);

}  // namespace sluice
