#pragma once

#include <string>

#include "experiments/report/sections/sections.h"

namespace sluice::report {

/// The table of all cells: a column for each axis (or, where these are many,
/// the cells' labels), the runs, and the figures. Those that a page of 1280
/// pixels has no room for show when their box is ticked. The best cell of each
/// method and number of blocks comes first. The page's script sorts and filters
/// its rows, by data-value.
std::string results_table(const ReportInput& input);

}  // namespace sluice::report
