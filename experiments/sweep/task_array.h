#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::sweep {

/// What a task of a job array is to do: a run of a sweep, with all that it
/// needs, for the config may have changed when it begins.
struct ArrayTask {
  std::string cell = {};    ///< "001"
  std::string folder = {};  ///< of the cell, in that of the sweep
  std::string label = {};   ///< of the cell
  std::int64_t seed = 0;
  std::string config = {};  ///< TOML; threads = 0: those of the task's cores
  double rung = 0;          ///< epochs after which it pauses; 0: at its end
};

/// A job array of Slurm, in the sweep's folder under slurm/array-N:
///
///   tasks.json   what its tasks do
///   job.sh       the batch script
///   job          the id that Slurm has given it; its tasks wait for this file
///   task-N.log   what task N has said; there when it has begun
///   task-N.end   there when it has ended in an orderly way
///   over         there when none of its tasks is in Slurm's queue any more
class TaskArray {
 public:
  /// Task array in this folder.
  explicit TaskArray(std::string folder) : folder_(std::move(folder)) {}

  /// Writes one more array of a sweep, without `job`. Throws UserError.
  static TaskArray write(const std::string& sweep_folder,
                         const std::vector<ArrayTask>& tasks, bool retry,
                         bool again, const std::string& command);

  struct Tasks {
    std::vector<ArrayTask> tasks = {};  ///< task 1 first
    bool retry = false;                 ///< as SweepOptions has them
    bool again = false;
    std::string command = {};
  };
  /// The tasks as their file has them. Throws UserError when it can't be read.
  Tasks tasks() const;

  const std::string& folder() const { return folder_; }
  std::string sweep_folder() const;
  std::string script() const { return folder_ + "/job.sh"; }
  /// `task` may be "%a": Slurm's pattern for the number.
  std::string log_of(const std::string& task) const;
  std::string end_of(int task) const;

  /// Number of the job in Slurm; empty: it was not submitted.
  std::string job() const;
  void set_job(const std::string& id) const;
  bool is_over() const;
  void mark_over() const;

 private:
  std::string folder_;
};

/// The folder of a task's run, as that of any run of a sweep.
std::string run_folder_of(const ArrayTask& task,
                          const std::string& sweep_folder);

/// The job arrays that were submitted and aren't over, the first one first.
std::vector<TaskArray> open_arrays(const std::string& sweep_folder);

}  // namespace sluice::sweep
