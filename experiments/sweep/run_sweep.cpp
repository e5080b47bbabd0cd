#include "experiments/sweep/run_sweep.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "experiments/sweep/folder_lock.h"
#include "experiments/sweep/launcher.h"
#include "experiments/sweep/plan_file.h"
#include "experiments/sweep/sweep_text.h"
#include "lib/base/error.h"
#include "lib/base/file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

void refuse_others(const SweepRuns& runs) {
  for (const SweepRun& run : runs.all())
    if (run.state.kind == RunState::Kind::other)
      throw UserError(
          "{} holds a run with another config ({}); give another --dir, or "
          "--again to do it anew",
          run.folder, run.state.difference);
}

/// There was none when the plan was checked.
void make_folder(const std::string& folder) {
  std::error_code error;
  const bool is_made = fs::create_directories(folder, error);
  if (error) throw UserError("{}: can't be made: {}", folder, error.message());
  if (!is_made)
    throw UserError("{}: another sluice sweep has just begun there", folder);
}

/// A run that was killed just before it wrote its marker has all else.
void mark_done(const SweepRuns& runs) {
  for (const SweepRun& run : runs.all())
    if (run.is_done() && !fs::exists(run.folder + "/done"))
      write_file_atomically(run.folder + "/done", [](std::ostream&) {});
}

SweepResult result_of(const SweepRuns& runs) {
  SweepResult result{.runs = runs.all().size()};
  for (const SweepRun& run : runs.all()) {
    if (run.is_done()) ++result.done;
    if (!run.failure.empty()) ++result.failed;
  }
  return result;
}

void print_end(const SweepRuns& runs, const std::string& folder) {
  const SweepResult result = result_of(runs);
  fmt::print("\n{}\n{} of {} runs done", results_text(runs), result.done,
             result.runs);
  if (result.failed > 0) fmt::print(", {} failed", result.failed);
  fmt::print(", in {}\n", folder);
  if (result.done + result.failed < result.runs)
    fmt::print("The same command goes on.\n");
}

}  // namespace

SweepResult run_sweep(const Sweep& sweep, const SweepOptions& options,
                      StopSignals& signals) {
  const std::string folder =
      options.folder.empty() ? "runs/sweeps/" + sweep.name : options.folder;
  std::atomic<bool> is_stopped = false;
  const StopScope stop(signals, [&] { is_stopped = true; });
  const bool was_there = fs::exists(folder);
  std::optional<FolderLock> lock;
  // Before its runs are looked at: nobody may change them then.
  if (was_there && !options.dry_run) lock.emplace(folder);
  SweepRuns runs(sweep, placed(plan_of(sweep), folder), folder,
                 options.data_root);
  if (!options.again) refuse_others(runs);
  fmt::print("{}", plan_text(runs, options, folder));
  if (options.dry_run) fmt::print("{}", cells_text(runs));
  std::fflush(stdout);
  if (options.dry_run) return result_of(runs);
  if (!was_there) {
    make_folder(folder);
    lock.emplace(folder);
  }
  write_plan(folder, runs.plan());
  mark_done(runs);
  Launcher(runs, options, is_stopped).run();
  print_end(runs, folder);
  return result_of(runs);
}

}  // namespace sluice
