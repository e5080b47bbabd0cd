#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/sections/sections.h"

namespace sluice::report {

/// Cells with as many blocks, of each method the best one: a report of many
/// cells is drawn in such parts, side by side.
struct Panel {
  std::string title = {};  ///< "4 blocks"; empty: all have as many
  std::string name = {};   ///< "_4_blocks", behind the names of charts' files
  ReportInput input = {};  ///< of these cells alone
  std::vector<std::string> lines = {};  ///< by cell: BestCell::line
};

/// By number of blocks. A line has the same style in all panels. Empty where
/// the cells are few enough for one picture.
std::vector<Panel> panels_of(const ReportInput& input);

/// Input with the best cells alone (best_cells()), for sections that take room
/// for each cell; nothing where these are few enough.
std::optional<ReportInput> best_of_many(const ReportInput& input);

using ChartsOf = std::function<std::vector<Chart>(const ReportInput&)>;

/// Each chart once for every panel, on the same axes: by chart, in their order.
std::vector<std::vector<Chart>> charts_of_panels(
    const std::vector<Panel>& panels, const ChartsOf& charts_of);

/// The charts with their legend: of all cells, or, where these are many, in
/// panels; then, if asked for, all of them below a fold. Empty without any.
std::string drawn_in_panels(const ReportInput& input, const ChartsOf& charts_of,
                            bool has_all);

}  // namespace sluice::report
