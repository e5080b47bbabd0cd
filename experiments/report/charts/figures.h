#pragma once

#include <string>
#include <vector>

#include "experiments/report/charts/chart.h"

namespace sluice::report {

/// A chart with its legend below it, as an SVG file that needs no other: for
/// papers and slides. On white, without CSS variables, which not every program
/// that reads SVG knows.
std::string figure_of(const Chart& chart);

/// Writes each chart to folder/NAME.svg, after removing all .svg files that are
/// in the folder. Throws UserError when that fails.
void write_figures(const std::string& folder, const std::vector<Chart>& charts);

}  // namespace sluice::report
