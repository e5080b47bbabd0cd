#pragma once

#include <vector>

#include "experiments/report/study/run_record.h"
#include "experiments/report/study/statistics.h"

namespace sluice::report {

/// What the runs of a cell say about one figure after some turn.
struct BandPoint {
  double turn = 0;
  double time = 0;  ///< seconds, a mean too
  Spread spread = {};
};

/// Means and deviations over runs, turn by turn. A run with more than
/// `most_points` of them is cut into as many spans of equal length, of each of
/// which the mean is taken; 0: as it is.
std::vector<BandPoint> band_of(const std::vector<const RunSeries*>& runs,
                               std::int64_t most_points);

}  // namespace sluice::report
