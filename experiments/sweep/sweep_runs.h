#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/checkpoints/run_state.h"
#include "experiments/sweep/file/done_rows.h"
#include "experiments/sweep/file/plan_file.h"
#include "experiments/sweep/file/sweep.h"

namespace sluice::sweep {

/// A run of a sweep: a cell and a seed.
struct SweepRun {
  std::size_t cell = 0;  ///< in the plan
  std::int64_t seed = 0;
  std::string folder = {};
  RunState state = {};
  std::string failure = {};  ///< why its last try failed; empty: it didn't

  bool is_pruned = false;  ///< halving has stopped it
  bool is_row = false;     ///< done elsewhere: there is only its row

  bool is_done() const { return state.kind == RunState::Kind::done; }
  /// The build that it was made by, where that isn't this one; or empty.
  std::string other_build() const;
};

/// "folder.failed" holds why the last try of the run there failed.
std::string failure_file(const std::string& run_folder);

/// All runs of a sweep, and what stands in their folders.
class SweepRuns {
 public:
  /// Reads and checks the config of every run, with `read`; also that this
  /// machine has its devices, unless it `runs_elsewhere`. A run that isn't
  /// there, but is in the rows, is done. Throws UserError that names the cell
  /// for one that is wrong; nothing is written.
  SweepRuns(const Sweep& sweep, SweepPlan plan, const std::string& folder,
            ReadRun read, bool runs_elsewhere = false, DoneRows rows = {});

  const Sweep& sweep() const { return sweep_; }
  const SweepPlan& plan() const { return plan_; }
  const DoneRows& rows() const { return rows_; }
  std::deque<SweepRun>& all() { return runs_; }
  const std::deque<SweepRun>& all() const { return runs_; }
  /// The run with these values and that seed, which is added to the plan when
  /// there is none; what it refers to stays where it is. Throws UserError when
  /// its config is wrong: nothing is added then.
  SweepRun& put(const std::vector<CellValue>& values, std::int64_t seed);
  const Cell& cell_of(const SweepRun& run) const;
  /// Name of a run: "policy=local_loss, lr=0.1, seed 2".
  std::string name_of(const SweepRun& run) const;
  /// Experiment of the run.
  Experiment experiment_of(const SweepRun& run) const;
  /// Whether it leaves open how many threads a block has.
  bool leaves_threads_open(const SweepRun& run) const;
  /// Looks at the run's folder again.
  void look_at(SweepRun& run) const;

 private:
  SweepRun run_in(std::size_t cell, std::int64_t seed) const;
  void check_and_look(SweepRun& run, bool is_first_of_cell);
  void tell_left_out(const SweepRun& run, const Experiment& experiment);
  void look_for_row(SweepRun& run, const Experiment& experiment) const;
  void look_at(SweepRun& run, const Experiment& experiment) const;

  const Sweep& sweep_;
  SweepPlan plan_;
  std::string folder_;
  ReadRun read_;
  bool runs_elsewhere_;
  DoneRows rows_;
  std::deque<SweepRun> runs_;
  std::set<std::string> told_;  // of what cells leave out
};

}  // namespace sluice::sweep
