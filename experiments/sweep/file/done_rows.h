#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/metrics/records.h"

namespace sluice::sweep {

/// Runs that were done elsewhere: the rows of report_runs.csv whose state is
/// "done", by the fingerprint of their config, seed included. They count as
/// done, so that a sweep can be worked off in parts of which only the rows are
/// kept.
class DoneRows {
 public:
  DoneRows() = default;
  /// Throws UserError for a file that can't be read, has no columns `config`
  /// and `state`, or has a row with another number of columns.
  explicit DoneRows(const std::vector<std::string>& files);

  std::size_t size() const { return rows_.size(); }
  /// Accuracy and loss of the run with this config; nullptr: there is no row.
  const records::Evaluation* find(const Experiment& experiment) const;

 private:
  void read(const std::string& file);

  std::map<std::string, records::Evaluation> rows_;
};

}  // namespace sluice::sweep
