#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "experiments/report/study/run_record.h"

namespace sluice::report {

/// What a run is to come to on the test split: a loss or less, or an accuracy
/// or more.
struct Target {
  double value = 0;  ///< a loss, or a fraction
  bool is_accuracy = false;

  std::string text() const;  ///< "0.5" or "97 %"
  /// "with a test loss of 0.5 or less".
  std::string condition() const;
};

/// Reads "0.5", a loss, or "97%", an accuracy. Throws UserError.
Target target_from(std::string_view text);

/// The first point at the target; nothing: there is none.
std::optional<RunPoint> first_at(const RunSeries& series, const Target& target);

}  // namespace sluice::report
