#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/checkpoints/run_state.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/sweep/file/sweep.h"
#include "experiments/sweep/sweep_runs.h"

namespace sluice::sweep {

/// Runs become tasks of Slurm.
struct SlurmOptions {
  std::string options = {};  ///< of sbatch, behind those of the config
  bool wait = true;          ///< else it is over when they are submitted
};

struct SweepOptions {
  std::string folder = {};  ///< empty: runs/sweeps/NAME
  /// Runs at once, each in a process of its own; 0: as many as Slurm has room
  /// for.
  int jobs = 1;
  int cores = 0;  ///< of each run; 0: its part of this machine's
  std::optional<SlurmOptions> slurm = {};  ///< empty: on this machine
  /// Try those again that failed: each once.
  bool retry = false;
  /// Do those anew that another build has made, or that have another config.
  bool again = false;
  /// Files of rows of runs that were done elsewhere (DoneRows).
  std::vector<std::string> done_rows = {};
  bool dry_run = false;        ///< print the plan and what is done; no more
  std::string command = {};    ///< for run.json
  std::string program = {};    ///< what runs are started from
  std::string data_root = {};  ///< where the config names none
  /// How configs are read; empty: read_experiment().
  ReadRun read = {};
  /// Whether runs that were interrupted go on from their checkpoints; else they
  /// begin anew.
  bool continues = true;

  ReadRun reader() const { return read ? read : reader_with(data_root); }
};

/// State of a sweep: its runs by how they ended.
struct SweepResult {
  std::size_t runs = 0;
  std::size_t done = 0;
  std::size_t failed = 0;
  std::size_t pruned = 0;     ///< stopped by halving
  bool is_submitted = false;  ///< to Slurm, and not waited for

  bool is_over() const { return done + failed + pruned == runs; }
};

/// Does the runs that are not done yet, and continues those that were
/// interrupted. A signal lets the runs save checkpoints. Prints the plan, a
/// line for each run, and a table. Throws UserError before anything is written
/// or started for a bad cell, a folder that has another plan, and one that
/// another sweep works in.
SweepResult run_sweep(const Sweep& sweep, const SweepOptions& options,
                      StopSignals& signals);

}  // namespace sluice::sweep
