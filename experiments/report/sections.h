#pragma once

#include <string>
#include <vector>

#include "experiments/report/columns.h"
#include "experiments/report/methods.h"
#include "experiments/report/study.h"

namespace sluice {

/// What the sections of a page are written from.
struct ReportInput {
  Study study = {};
  std::vector<Column> columns = {};
  std::vector<CellStyle> styles = {};              ///< by cell
  std::vector<std::optional<TurnWork>> work = {};  ///< by cell
  bool only_numbers = false;  ///< nothing measured in time, rates or memory
};

// Each returns HTML; empty when the runs have nothing for it.

std::string legend(const ReportInput& input);
/// The head of a row: the cell's mark and label, maybe as a link to its config.
std::string cell_head(const ReportInput& input, std::size_t cell,
                      bool has_link = false);
std::string results_section(const ReportInput& input);
/// Test accuracy and loss against turns, time, operations and bytes.
std::string curves_section(const ReportInput& input);
std::string training_section(const ReportInput& input);
std::string price_section(const ReportInput& input);
std::string staleness_section(const ReportInput& input);
std::string truth_section(const ReportInput& input);
std::string memory_section(const ReportInput& input);
std::string timeline_section(const ReportInput& input);
std::string repeat_section(const ReportInput& input);

}  // namespace sluice
