#pragma once

#include <functional>
#include <optional>

#include "experiments/report/study/columns.h"
#include "experiments/report/study/run_record.h"
#include "experiments/report/study/work.h"

namespace sluice::report {

/// A figure of a run, as a function of the run and of the work of a turn, if
/// that is known.
struct MeasuredFigure {
  Figure figure = {};
  /// The figure of a run that is done; nothing: not known.
  std::function<std::optional<double>(const RunRecord&,
                                      const std::optional<TurnWork>&)>
      of = {};
  /// Whether the run never came to what the figure counts until. Empty: it
  /// counts until the end.
  std::function<bool(const RunRecord&)> is_censored = {};
};

}  // namespace sluice::report
