#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "experiments/report/study/columns.h"
#include "experiments/report/study/study.h"

namespace sluice::report {

/// The back-propagation that a cell is compared with: the cell of that method
/// whose other axes are the same; or else, of all of that method with the same
/// data and model (and with as many blocks, where there is one), the one that
/// ended with the highest mean accuracy on the validation split, or on the test
/// split where there is no other. Nothing where there is none with a run that
/// is done, and for that cell itself.
std::optional<std::size_t> baseline_of(const Study& study,
                                       const std::vector<Column>& columns,
                                       std::size_t cell);

/// A figure of runs, by their seeds.
using SeedFigures = std::map<std::int64_t, double>;

struct Difference {
  double mean = std::numeric_limits<double>::quiet_NaN();
  /// Half of the 95 % interval of the mean; NaN for fewer than two seeds.
  double half = std::numeric_limits<double>::quiet_NaN();
  int n = 0;  ///< seeds that both have
};

/// Mean of a - b over the seeds that both have, with its interval by Student's
/// t: runs of one seed share their data's order, so their differences vary less
/// than the runs do.
Difference paired_difference(const SeedFigures& a, const SeedFigures& b);

/// What a cell is judged by; of each less is better. Not a number: unknown.
using Objectives = std::vector<double>;

/// True for each entry that no other one dominates, by being at least as good
/// in every objective and better in one. False for one with an unknown
/// objective.
std::vector<bool> pareto_front(std::span<const Objectives> all);

}  // namespace sluice::report
