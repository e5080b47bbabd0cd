#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/report/study/target.h"
#include "experiments/report/study/work.h"

namespace sluice::report {

struct ReportOptions {
  /// Folders of runs, of sweeps, or of several of those.
  std::vector<std::string> folders = {};
  std::string page = {};  ///< empty: report.html in the first folder
  /// Without what was measured in time, rates or memory: the same runs, done
  /// again, give the same bytes.
  bool only_numbers = false;
  /// The report also has what the runs took until they came to it.
  std::optional<Target> target = {};
  FactsOf facts = {};  ///< empty: nothing is known of configs
};

/// The files that were written.
struct ReportFiles {
  std::string page = {};
  std::string markdown = {};
  std::string table = {};    ///< CSV, a row per cell
  std::string runs = {};     ///< CSV, a row per run
  std::string figures = {};  ///< a folder with each chart as an SVG file
};

/// Writes the page, the tables and the charts. Throws UserError when a folder
/// has no runs, a run is damaged, or a file can't be written.
ReportFiles write_report(const ReportOptions& options);

}  // namespace sluice::report
