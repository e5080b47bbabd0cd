#include "experiments/sweep/run_sweep.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/sweep/file/plan_file.h"
#include "experiments/sweep/halving.h"
#include "experiments/sweep/local_launcher.h"
#include "experiments/sweep/mixed_runs.h"
#include "experiments/sweep/slurm.h"
#include "experiments/sweep/slurm_launcher.h"
#include "experiments/sweep/sweep_folder.h"
#include "experiments/sweep/sweep_text.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/user_text.h"

namespace sluice::sweep {
namespace {

namespace fs = std::filesystem;

void refuse_others(const SweepRuns& runs) {
  for (const SweepRun& run : runs.all())
    if (run.state.is_other_data)
      throw UserError(
          "{} holds a run that was done on other data than are there now ({}); "
          "bring those back, give another --dir, or --again to do it anew",
          run.folder, run.state.difference);
    else if (run.state.kind == RunState::Kind::other)
      throw UserError(
          "{} holds a run with another config ({}); give another --dir, or "
          "--again to do it anew",
          run.folder, run.state.difference);
}

void check_done_rows(const Sweep& sweep, const SweepOptions& options) {
  if (options.done_rows.empty()) return;
  if (sweep.halving)
    throw UserError(
        "--done: a row has no figures of the rungs of sweep.halving; leave one "
        "of them out");
  if (options.slurm)
    throw UserError("--done is for runs on this machine; leave out --launcher");
}

void check_slurm(const Sweep& sweep, const SlurmOptions& slurm) {
  check_slurm_options(sweep.slurm);
  check_slurm_options(slurm.options);
  if (sweep.halving && !slurm.wait)
    throw UserError(
        "sweep.halving: compares runs before others begin, so it wants a "
        "sluice "
        "sweep that waits; leave out --no-wait");
}

std::vector<std::size_t> all_cells(const SweepPlan& plan) {
  std::vector<std::size_t> cells(plan.cells.size());
  std::iota(cells.begin(), cells.end(), std::size_t{0});
  return cells;
}

bool is_among(std::size_t cell, const std::vector<std::size_t>& cells) {
  return std::find(cells.begin(), cells.end(), cell) != cells.end();
}

/// Whether all runs of the cells are at the rung, or will never be.
bool are_at_rung(const SweepRuns& runs, const std::vector<std::size_t>& cells,
                 double rung) {
  return std::all_of(
      runs.all().begin(), runs.all().end(), [&](const SweepRun& run) {
        return !is_among(run.cell, cells) || !run.failure.empty() ||
               has_reached(run, turn_of_rung(runs.experiment_of(run), rung));
      });
}

/// Name of the measure: "validation accuracy"; or "test loss (set
/// data.validation ...)".
std::string chooser_text(const SweepRuns& runs, const Halving& halving) {
  const bool all_validate = std::all_of(
      runs.all().begin(), runs.all().end(), [&](const SweepRun& run) {
        return runs.experiment_of(run).data->has_validation();
      });
  return all_validate ? "validation " + halving.measure
                      : fmt::format(
                            "test {} (set data.validation, and another split "
                            "chooses than the one that is reported)",
                            halving.measure);
}

/// Stops those of the cells at the rung that aren't among the best.
void prune(SweepRuns& runs, const std::vector<std::size_t>& cells,
           const std::vector<std::size_t>& best, const Halving& halving,
           double rung) {
  for (SweepRun& run : runs.all()) {
    if (!is_among(run.cell, cells) || is_among(run.cell, best)) continue;
    if (run.is_done() || !run.failure.empty()) continue;
    run.is_pruned = true;
    write_file_atomically(pruned_file(run.folder), [&](std::ostream& file) {
      file << fmt::format("stopped by halving after epoch {}\n", rung);
    });
  }
  sluice::put("After epoch {} {} of {} cells go on, by the {}\n", rung,
              best.size(), cells.size(), chooser_text(runs, halving));
  for (const std::size_t cell : best)
    sluice::put("  {}\n", runs.plan().cells[cell].cell.label);
}

/// The cells that are left after the last rung; none when the sweep was stopped
/// on the way.
std::vector<std::size_t> halved(std::vector<std::size_t> cells,
                                const Halving& halving, SweepRuns& runs,
                                Launcher& launcher) {
  for (const double rung : halving.rungs) {
    launcher.run(cells, rung);
    if (!are_at_rung(runs, cells, rung)) return {};
    const std::vector<std::size_t> best =
        best_cells(cells, scores_at(runs, cells, halving, rung), halving.keep);
    prune(runs, cells, best, halving, rung);
    cells = best;
  }
  return cells;
}

std::unique_ptr<Launcher> launcher_for(SweepRuns& runs,
                                       const SweepOptions& options,
                                       const std::string& folder,
                                       const std::atomic<bool>& is_stopped) {
  if (options.slurm)
    return std::make_unique<SlurmLauncher>(runs, options, folder, is_stopped);
  return std::make_unique<LocalLauncher>(runs, options, is_stopped);
}

/// A sweep whose first job array was refused leaves its plan and nothing else.
void remove_if_nothing_ran(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(folder + "/cells", ignored) || !open_arrays(folder).empty())
    return;
  fs::remove_all(folder, ignored);
}

SweepResult result_of(const SweepRuns& runs) {
  SweepResult result{.runs = runs.all().size()};
  for (const SweepRun& run : runs.all()) {
    if (run.is_done()) ++result.done;
    if (!run.failure.empty()) ++result.failed;
    if (run.is_pruned) ++result.pruned;
  }
  return result;
}

void print_end(const SweepRuns& runs, const std::string& folder) {
  const SweepResult result = result_of(runs);
  sluice::put("\n{}{}\n{} of {} runs done", results_text(runs),
              notes_on_mixed(runs), result.done, result.runs);
  if (result.failed > 0) sluice::put(", {} failed", result.failed);
  if (result.pruned > 0) sluice::put(", {} stopped by halving", result.pruned);
  sluice::put(", in {}\n", folder);
  if (!result.is_over()) sluice::put("The same command goes on.\n");
}

}  // namespace

SweepResult run_sweep(const Sweep& sweep, const SweepOptions& options,
                      StopSignals& signals) {
  check_done_rows(sweep, options);
  if (options.slurm) check_slurm(sweep, *options.slurm);
  if (options.slurm && !options.dry_run) check_sbatch();
  SweepFolder place(folder_of(sweep, options));
  const std::string& folder = place.path();
  std::atomic<bool> is_stopped = false;
  const StopScope stop(
      signals, [&] { is_stopped = true; },
      options.slurm ? "Its jobs stay in Slurm's queue: the same command waits "
                      "for them again, and scancel ends them, with checkpoints."
                    : "");
  if (!options.dry_run) place.open_if_there();
  if (place.is_open() && options.slurm) tasks_of_sweep(folder);  // marks losses
  if (place.is_open() && !options.slurm) refuse_beside_slurm(folder);
  SweepRuns runs(sweep, placed(plan_of(sweep), folder), folder,
                 options.reader(), options.slurm.has_value(),
                 DoneRows(options.done_rows));
  if (!options.again) refuse_others(runs);
  sluice::put("{}", plan_text(runs, options, folder));
  if (options.dry_run) sluice::put("{}", cells_text(runs));
  if (options.dry_run) return result_of(runs);
  const bool is_new = !place.is_open();
  place.make_if_missing();
  write_plan(folder, runs.plan());
  mark_done(runs);
  // Halving is decided anew: cells may have been added.
  for (SweepRun& run : runs.all()) run.is_pruned = false;
  const auto launcher = launcher_for(runs, options, folder, is_stopped);
  std::vector<std::size_t> cells = all_cells(runs.plan());
  try {
    if (sweep.halving) cells = halved(cells, *sweep.halving, runs, *launcher);
    launcher->run(cells, 0);
  } catch (const UserError&) {
    if (is_new) remove_if_nothing_ran(folder);
    throw;
  }
  SweepResult result = result_of(runs);
  result.is_submitted =
      options.slurm && !options.slurm->wait && !result.is_over();
  if (result.is_submitted)
    sluice::put("The same command without --no-wait waits for them.\n");
  else
    print_end(runs, folder);
  return result;
}

}  // namespace sluice::sweep
