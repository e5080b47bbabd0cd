#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/charts/chart.h"
#include "experiments/report/study/columns.h"
#include "experiments/report/study/methods.h"
#include "experiments/report/study/study.h"
#include "experiments/report/study/target.h"

namespace sluice::report {

/// What the sections of a page are written from.
struct ReportInput {
  Study study = {};
  std::vector<Column> columns = {};
  std::vector<CellStyle> styles = {};              ///< by cell
  std::vector<std::optional<TurnWork>> work = {};  ///< by cell
  /// By cell: ConfigFacts::sample.
  std::vector<std::vector<std::int64_t>> samples = {};
  bool only_numbers = false;  ///< nothing measured in time, rates or memory
  std::optional<Target> target = {};  ///< as in ReportOptions
};

// Each returns HTML; empty when the runs have nothing for it.

std::string legend(const ReportInput& input);
/// The head of so many rows: the cell's mark and label, maybe as a link to its
/// config.
std::string cell_head(const ReportInput& input, std::size_t cell,
                      bool has_link = false, std::size_t rows = 1);
std::string results_section(const ReportInput& input);
std::string curves_section(const ReportInput& input);
std::string axes_section(const ReportInput& input);
std::string training_section(const ReportInput& input);
std::string price_section(const ReportInput& input);
std::string target_section(const ReportInput& input);
/// The section below the charts of truth_section(), layer by layer.
std::string truth_by_layer(const ReportInput& input);
std::string filters_section(const ReportInput& input);
std::string staleness_section(const ReportInput& input);
std::string truth_section(const ReportInput& input);
std::string memory_section(const ReportInput& input);
std::string timeline_section(const ReportInput& input);
std::string repeat_section(const ReportInput& input);

// What sections draw and figures.h writes into files; only charts with points.

/// Test accuracy and loss against turns, time, operations and bytes.
std::vector<Chart> test_charts(const ReportInput& input);
/// Charts in panels (panels.h), where cells are many.
std::vector<Chart> panel_charts(const ReportInput& input);
/// Test accuracy and loss against each axis whose values are numbers.
std::vector<Chart> axis_charts(const ReportInput& input);
/// Test accuracy against what it costs.
std::vector<Chart> pareto_charts(const ReportInput& input);
/// What it takes to come to ReportInput::target: time against cost.
std::vector<Chart> target_charts(const ReportInput& input);

/// How true gradients are, by layer; not among the files.
std::vector<Chart> depth_charts(const ReportInput& input);

/// Charts side by side.
std::string grid_of(const std::vector<Chart>& charts);

}  // namespace sluice::report
