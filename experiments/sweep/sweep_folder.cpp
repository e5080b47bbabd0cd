#include "experiments/sweep/sweep_folder.h"

#include <filesystem>
#include <map>
#include <ostream>
#include <system_error>

#include "experiments/sweep/slurm.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"

namespace sluice::sweep {

namespace fs = std::filesystem;

void SweepFolder::open_if_there() {
  if (fs::exists(path_)) lock_.emplace(path_);
}

void SweepFolder::make_if_missing() {
  if (lock_) return;
  std::error_code error;
  const bool is_made = fs::create_directories(path_, error);
  if (error) throw UserError("{}: can't be made: {}", path_, error.message());
  if (!is_made)
    throw UserError("{}: another sluice sweep has just begun there", path_);
  lock_.emplace(path_);
}

std::string folder_of(const Sweep& sweep, const SweepOptions& options) {
  const std::string folder =
      options.folder.empty() ? "runs/sweeps/" + sweep.name : options.folder;
  return options.slurm ? fs::absolute(folder).lexically_normal().string()
                       : folder;
}

void refuse_beside_slurm(const std::string& folder) {
  std::map<std::string, std::string> tasks;
  try {
    tasks = tasks_of_sweep(folder);
  } catch (const UserError& error) {
    throw UserError(
        "{}: jobs of Slurm may still work there, and {}; when they are over "
        "for sure, remove {}/slurm",
        folder, error.what(), folder);
  }
  if (tasks.empty()) return;
  const std::string& task = tasks.begin()->second;
  throw UserError(
      "{}: {} of its runs are in Slurm's queue; wait for them with --launcher "
      "slurm, or end them with scancel {}",
      folder, tasks.size(), task.substr(0, task.find('_')));
}

void mark_done(const SweepRuns& runs) {
  for (const SweepRun& run : runs.all())
    if (run.is_done() && !run.is_row && !fs::exists(run.folder + "/done"))
      write_file_atomically(run.folder + "/done", [](std::ostream&) {});
}

}  // namespace sluice::sweep
