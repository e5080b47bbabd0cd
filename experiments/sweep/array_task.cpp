#include "experiments/sweep/array_task.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <ostream>
#include <thread>

#include "experiments/config/files/toml.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/sweep/local_launcher.h"
#include "experiments/sweep/run_jobs.h"
#include "experiments/sweep/sweep_runs.h"
#include "experiments/sweep/task_array.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"

namespace sluice::sweep {
namespace {

using Clock = std::chrono::steady_clock;

/// A file of another host may be seen a minute later.
constexpr std::chrono::minutes kPatienceWithTasks{2};
constexpr std::chrono::milliseconds kBetweenReads{100};

void check_job(const TaskArray& array, const std::string& job) {
  const auto until = Clock::now() + kPatienceWithTasks;
  while (array.job().empty() && Clock::now() < until)
    std::this_thread::sleep_for(kBetweenReads);
  if (array.job() != job)
    throw UserError(
        "{}: is not of job {}: the sluice sweep that submitted that job was "
        "killed before it had written the job's number here; start the sweep "
        "again",
        array.folder(), job);
}

const ArrayTask& task_in(const TaskArray::Tasks& tasks, int number,
                         const TaskArray& array) {
  if (number < 1 || static_cast<std::size_t>(number) > tasks.tasks.size())
    throw UserError("{}: has no task {}", array.folder(), number);
  return tasks.tasks[static_cast<std::size_t>(number) - 1];
}

/// The sweep of that run alone.
Sweep sweep_of(const ArrayTask& task, const TaskArray& array) {
  return {.name = task.label,
          .config = parse_toml(task.config, array.folder() + "/tasks.json")};
}

SweepPlan plan_of(const ArrayTask& task) {
  return {.name = task.label,
          .cells = {{.id = task.cell,
                     .folder = task.folder,
                     .cell = {.label = task.label},
                     .seeds = {task.seed}}}};
}

int status_of(const SweepRun& run) {
  if (run.is_done()) return 0;
  return run.failure.empty() ? 4 : 3;
}

int do_task(const ArrayTask& task, const TaskArray& array,
            const SweepOptions& options, StopSignals& signals) {
  std::atomic<bool> is_stopped = false;
  const StopScope stop(signals, [&] { is_stopped = true; });
  const Sweep sweep = sweep_of(task, array);
  SweepRuns runs(sweep, plan_of(task), array.sweep_folder(), options.reader());
  LocalLauncher(runs, options, is_stopped).run({0}, task.rung);
  return status_of(runs.all().front());
}

}  // namespace

int do_array_task(const ArrayTaskArguments& arguments) {
  // Slurm may tell more than once. Before LibTorch has threads.
  StopSignals signals(StopSignals::SecondSignal::ignored);
  const TaskArray array(arguments.array);
  const TaskArray::Tasks tasks = array.tasks();
  const ArrayTask& task = task_in(tasks, arguments.task, array);
  check_job(array, arguments.job);
  const std::string end = array.end_of(arguments.task);
  std::filesystem::remove(end);  // of a task that Slurm begins anew
  int status = 0;
  try {
    status = do_task(task, array,
                     {.cores = arguments.cores,
                      .retry = tasks.retry,
                      .again = tasks.again,
                      .command = tasks.command,
                      .program = arguments.program},
                     signals);
  } catch (const UserError& error) {  // no GPU here, say
    SweepRun run{.folder = run_folder_of(task, array.sweep_folder())};
    std::filesystem::create_directories(
        std::filesystem::path(run.folder).parent_path());
    mark_failed(run, error.what());
    write_file_atomically(end, [](std::ostream& file) { file << "failed\n"; });
    throw;
  }
  write_file_atomically(
      end, [&](std::ostream& file) { file << "status " << status << '\n'; });
  return status;
}

}  // namespace sluice::sweep
