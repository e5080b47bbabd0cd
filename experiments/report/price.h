#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "experiments/report/columns.h"
#include "experiments/report/study.h"

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

/// a - b of two means, with the root of the sum of both variances; NaN where a
/// deviation is unknown.
Spread difference_of(const Spread& a, const Spread& b);

/// What a cell is judged by; of each less is better. Not a number: unknown.
using Objectives = std::vector<double>;

/// True for each entry that no other one dominates, by being at least as good
/// in every objective and better in one. False for one with an unknown
/// objective.
std::vector<bool> pareto_front(std::span<const Objectives> all);

}  // namespace sluice::report
