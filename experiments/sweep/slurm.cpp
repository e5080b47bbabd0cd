#include "experiments/sweep/slurm.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "experiments/sweep/command_result.h"
#include "experiments/sweep/sweep_runs.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"

namespace sluice::sweep {
namespace {

namespace fs = std::filesystem;

/// Slurm's default; indices go from 0 to one less.
constexpr int kUsualArraySize = 1001;

/// Complaint of a command of Slurm, in one line: "sbatch: error: Invalid
/// partition" without the command's name before it.
std::string complaint_in(const CommandResult& end) {
  std::string complaint;
  std::istringstream lines(end.err + end.out);
  for (std::string line; std::getline(lines, line);) {
    for (const std::string_view who : {"sbatch: ", "squeue: ", "error: "})
      if (line.starts_with(who)) line.erase(0, who.size());
    if (line.empty() || line.starts_with("Try \"")) continue;
    complaint += (complaint.empty() ? "" : "; ") + line;
  }
  return complaint.empty() ? fmt::format("it ended with status {}", end.status)
                           : complaint;
}

/// A task's number: "3" of "3", and nothing of "[1-4]".
int number_in(std::string_view text) {
  int number = -1;
  const auto end =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? number
                                                                       : -1;
}

std::string last_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  return last;
}

/// A task that has begun and is gone without having ended in order.
bool was_lost(const TaskArray& array, int task) {
  return fs::exists(array.log_of(std::to_string(task))) &&
         !fs::exists(array.end_of(task));
}

/// Marks a lost task, once: the run may be tried again while others of the
/// array still go on.
void mark_lost(const TaskArray& array, int task, const std::string& run) {
  write_file_atomically(array.end_of(task),
                        [](std::ostream& file) { file << "lost\n"; });
  if (fs::exists(run + "/done") || fs::exists(failure_file(run))) return;
  const std::string log = array.log_of(std::to_string(task));
  const std::string last = last_line_of(log);
  write_file_atomically(failure_file(run), [&](std::ostream& file) {
    file << fmt::format(
        "its task {}_{} of Slurm was lost (killed, out of "
        "memory, or with its node); {}{}\n",
        array.job(), task, log, last.empty() ? " is empty" : " ends: " + last);
  });
}

/// Whether posix_spawnp() would find the program.
bool is_on_path(const std::string& program) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing of ours changes it
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access(((folder.empty() ? "." : folder) + "/" + program).c_str(),
                 X_OK) == 0)
      return true;
  return false;
}

}  // namespace

void check_sbatch() {
  if (!is_on_path("sbatch"))
    throw UserError(
        "--launcher slurm: PATH has no sbatch; run it where Slurm is, or leave "
        "out --launcher");
}

void submit(const TaskArray& array, const Submission& submission) {
  std::vector<std::string> argv = {
      "sbatch", "--parsable",
      fmt::format(
          "--array=1-{}{}", submission.tasks,
          submission.at_once > 0 ? fmt::format("%{}", submission.at_once) : ""),
      fmt::format("--output={}", array.log_of("%a")), "--open-mode=append"};
  if (!submission.after.empty())
    argv.push_back("--dependency=afterany:" + submission.after);
  argv.push_back(array.script());
  const CommandResult end = [&] {
    try {
      return captured(argv);
    } catch (const UserError& error) {
      throw UserError(
          "--launcher slurm: {}; run it where Slurm is, or leave out "
          "--launcher",
          error.what());
    }
  }();
  // Job's number in "12", or "12;cluster".
  const std::string id = end.out.substr(0, end.out.find_first_of(";\n"));
  if (end.status != 0 || number_in(id) < 0)
    throw UserError("sbatch refuses {}: {}", array.script(), complaint_in(end));
  array.set_job(id);
}

int most_tasks() {
  CommandResult end;
  try {
    end = captured({"scontrol", "show", "config"});
  } catch (const UserError&) {
    return kUsualArraySize - 1;  // sbatch will say more
  }
  const std::string key = "MaxArraySize";
  int size = kUsualArraySize;
  const std::size_t at = end.out.find(key);
  if (at != std::string::npos) {
    const std::size_t digit = end.out.find_first_of("0123456789", at);
    if (digit != std::string::npos)
      std::from_chars(&end.out[digit], end.out.data() + end.out.size(), size);
  }
  return std::max(1, size - 1);
}

std::map<std::string, std::set<int>> queued_tasks() {
  const CommandResult end =
      captured({"squeue", "--me", "--noheader", "--array", "--format=%F %K"});
  if (end.status != 0)
    throw UserError("squeue can't say what is in the queue: {}",
                    complaint_in(end));
  std::map<std::string, std::set<int>> tasks;
  std::istringstream lines(end.out);
  for (std::string job, task; lines >> job >> task;)
    tasks[job].insert(number_in(task));
  return tasks;
}

std::map<std::string, std::string> tasks_of_sweep(
    const std::string& sweep_folder) {
  const std::vector<TaskArray> arrays = open_arrays(sweep_folder);
  std::map<std::string, std::string> there;
  if (arrays.empty()) return there;
  auto queued = queued_tasks();
  for (const TaskArray& array : arrays) {
    const std::set<int>& own = queued[array.job()];
    int number = 0;
    for (const ArrayTask& task : array.tasks().tasks) {
      const std::string run = run_folder_of(task, sweep_folder);
      if (own.contains(++number))
        there[run] = fmt::format("{}_{}", array.job(), number);
      else if (was_lost(array, number))
        mark_lost(array, number, run);
    }
    if (own.empty()) array.mark_over();
  }
  return there;
}

}  // namespace sluice::sweep
