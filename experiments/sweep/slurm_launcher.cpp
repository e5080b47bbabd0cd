#include "experiments/sweep/slurm_launcher.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/files/toml.h"
#include "experiments/sweep/halving.h"
#include "experiments/sweep/slurm.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/user_text.h"

namespace sluice::sweep {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{200};
/// Slurm's controller serves a whole cluster.
constexpr milliseconds kLongestPause{10'000};
constexpr milliseconds kTick{50};
/// A controller that starts anew doesn't answer for a while.
constexpr int kMostSilences = 30;

/// A text in quotes, so that a shell reads it as one word.
std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

/// A job's name, which may be part of file names.
std::string plain_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' &&
        c != '.')
      c = '_';
  return name;
}

/// Asks what is in the queue, with patience.
class Queue {
 public:
  explicit Queue(std::string folder) : folder_(std::move(folder)) {}

  /// Tasks by the folders of runs, as tasks_of_sweep() has them; nothing when
  /// Slurm doesn't answer for now.
  std::optional<std::map<std::string, std::string>> tasks() {
    try {
      auto tasks = tasks_of_sweep(folder_);
      silences_ = 0;
      return tasks;
    } catch (const UserError& error) {
      if (++silences_ > kMostSilences)
        throw UserError(
            "{}; the jobs stay where they are, and the same command waits for "
            "them again",
            error.what());
      return std::nullopt;
    }
  }

 private:
  std::string folder_;
  int silences_ = 0;
};

}  // namespace

SlurmLauncher::SlurmLauncher(SweepRuns& runs, const SweepOptions& options,
                             const std::string& folder,
                             const std::atomic<bool>& is_stopped)
    : runs_(runs),
      options_(options),
      folder_(folder),
      is_stopped_(is_stopped) {}

void SlurmLauncher::run(const std::vector<std::size_t>& cells, double rung) {
  if (is_stopped_) return;
  const std::vector<RunJob> jobs = jobs_of(runs_, cells, rung, options_);
  const std::map<std::string, std::string> there = tasks_of_sweep(folder_);
  std::vector<RunJob> missing;
  for (const RunJob& job : jobs)
    if (!there.contains(job.run->folder)) missing.push_back(job);
  if (missing.size() < jobs.size()) {
    sluice::put("{} of the runs are in Slurm's queue already\n",
                jobs.size() - missing.size());
  }
  submit_all(missing, rung);
  if (options_.slurm->wait) wait_for(jobs);
}

void SlurmLauncher::submit_all(const std::vector<RunJob>& jobs, double rung) {
  if (jobs.empty()) return;
  const auto most = static_cast<std::size_t>(most_tasks());
  std::string before;
  for (std::size_t begin = 0; begin < jobs.size(); begin += most) {
    const std::size_t end = std::min(jobs.size(), begin + most);
    const std::vector<RunJob> part(
        jobs.begin() + static_cast<std::ptrdiff_t>(begin),
        jobs.begin() + static_cast<std::ptrdiff_t>(end));
    // With a limit of jobs, an array waits for the one before it.
    before = submit_array(part, rung, options_.jobs > 0 ? before : "");
  }
}

std::string SlurmLauncher::submit_array(const std::vector<RunJob>& jobs,
                                        double rung, const std::string& after) {
  std::vector<ArrayTask> tasks;
  tasks.reserve(jobs.size());
  for (const RunJob& job : jobs) tasks.push_back(task_of(job, rung));
  const TaskArray array = TaskArray::write(folder_, tasks, options_.retry,
                                           options_.again, options_.command);
  try {
    write_file_atomically(
        array.script(), [&](std::ostream& file) { file << script_of(array); });
    submit(array, {.tasks = static_cast<int>(jobs.size()),
                   .at_once = options_.jobs,
                   .after = after});
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(array.folder(), ignored);
    throw;
  }
  sluice::put("Submitted job {} of Slurm with {} task{}; logs: {}\n",
              array.job(), jobs.size(), jobs.size() == 1 ? "" : "s",
              array.log_of("N"));
  return array.job();
}

ArrayTask SlurmLauncher::task_of(const RunJob& job, double rung) const {
  const SweepRun& run = *job.run;
  const PlannedCell& cell = runs_.plan().cells.at(run.cell);
  ConfigNode config = runs_.experiment_of(run).resolved;
  if (runs_.leaves_threads_open(run))
    config.set("threads", {.value = std::int64_t{0}});
  return {.cell = cell.id,
          .folder = cell.folder,
          .label = cell.cell.label,
          .seed = run.seed,
          .config = to_toml(config),
          .rung = rung};
}

std::string SlurmLauncher::script_of(const TaskArray& array) const {
  std::string script = fmt::format(
      "#!/bin/sh\n"
      "# Written by sluice sweep, which submits it as a job array.\n"
      "#SBATCH --job-name=sluice-{}\n"
      "#SBATCH --requeue\n",
      plain_name(runs_.sweep().name));
  for (const std::string& line : {runs_.sweep().slurm, options_.slurm->options})
    if (!line.empty()) script += fmt::format("#SBATCH {}\n", line);
  // `exec`: what Slurm tells the script reaches the program.
  return script +
         fmt::format(
             "exec {} task-of-sweep --array {} --task \"$SLURM_ARRAY_TASK_ID\" "
             "--job \"$SLURM_ARRAY_JOB_ID\" "
             "--cores \"${{SLURM_CPUS_ON_NODE:-0}}\"\n",
             shell_word(options_.program), shell_word(array.folder()));
}

void SlurmLauncher::wait_for(std::vector<RunJob> jobs) {
  Queue queue(folder_);
  milliseconds pause = kFirstPause;
  while (!jobs.empty()) {
    for (milliseconds slept{0}; slept < pause && !is_stopped_; slept += kTick)
      std::this_thread::sleep_for(kTick);
    if (is_stopped_) return;
    pause = std::min(pause + pause / 2, kLongestPause);
    const auto there = queue.tasks();
    if (!there) continue;
    std::erase_if(jobs, [&](const RunJob& job) {
      if (there->contains(job.run->folder)) return false;
      finish(job);
      return true;
    });
  }
}

void SlurmLauncher::finish(const RunJob& job) {
  SweepRun& run = *job.run;
  runs_.look_at(run);
  RunEnd end{.kind = RunEnd::Kind::stopped};
  if (run.is_done())
    end = {.kind = RunEnd::Kind::done,
           .seconds = run.state.evaluation.time.value_or(0)};
  else if (!run.failure.empty())
    end = {.kind = RunEnd::Kind::failed, .reason = run.failure};
  else if (job.pause_turn > 0 && has_reached(run, job.pause_turn))
    end = {.kind = RunEnd::Kind::at_rung};
  print_end_of(job, end, runs_);
}

void check_slurm_options(const std::string& options) {
  constexpr std::array<std::string_view, 7> kOurs = {
      "--array", "--output", "--error",   "--wrap",
      "--wait",  "--chdir",  "--parsable"};
  constexpr std::array<std::string_view, 5> kShort = {"-a", "-o", "-e", "-W",
                                                      "-D"};
  if (options.find('\n') != std::string::npos)
    throw UserError("--slurm: wants the options of sbatch in one line");
  std::istringstream words(options);
  for (std::string word; words >> word;) {
    const std::string name = word.substr(0, word.find('='));
    if (std::find(kOurs.begin(), kOurs.end(), name) != kOurs.end() ||
        std::find(kShort.begin(), kShort.end(), name.substr(0, 2)) !=
            kShort.end())
      throw UserError(
          "--slurm: {} is set by sluice sweep itself; leave it out{}", name,
          name == "--array" || name.starts_with("-a")
              ? ", --jobs says how many run at once"
              : "");
  }
}

}  // namespace sluice::sweep
