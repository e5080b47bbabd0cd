#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/metrics/records.h"

namespace sluice {

/// Runs of a sweep that were done elsewhere: the rows of report_runs.csv whose
/// state is "done". They count as done, so that a sweep can be worked off in
/// parts of which only the rows are kept.
class DoneRows {
 public:
  struct Row {
    std::string place = {};   ///< "rows.csv:17"
    std::string config = {};  ///< column `config`; empty: the row is believed
    records::Evaluation evaluation = {};  ///< accuracy and loss only
  };

  DoneRows() = default;
  /// Throws UserError for a file that can't be read, has no columns `label`,
  /// `seed` and `state`, or has a row with another number of columns.
  explicit DoneRows(const std::vector<std::string>& files);

  /// The row of a run; nullptr: there is none. Throws UserError when the row
  /// was made with another config.
  const Row* find(const std::string& label, std::int64_t seed,
                  const Experiment& experiment) const;

 private:
  void read(const std::string& file);

  std::map<std::pair<std::string, std::int64_t>, Row> rows_;
};

}  // namespace sluice
