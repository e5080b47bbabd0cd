#pragma once

#include <vector>

#include "experiments/report/study/measured_figure.h"
#include "experiments/report/study/target.h"

namespace sluice::report {

/// Costs of a run until the first evaluation at the target: samples,
/// operations, seconds. Of runs that never came there, nothing.
std::vector<MeasuredFigure> figures_until(const Target& target);

}  // namespace sluice::report
