#pragma once

#include <optional>
#include <vector>

#include "experiments/report/study/measured_figure.h"

namespace sluice::report {

/// The first point whose value is the target or less; nothing: there is none.
std::optional<RunPoint> first_at_or_below(const RunSeries& series,
                                          double target);

/// Costs of a run until the first evaluation whose test loss was that or less:
/// samples, operations, seconds. Of runs that never came there, nothing.
std::vector<MeasuredFigure> figures_until(double test_loss);

}  // namespace sluice::report
