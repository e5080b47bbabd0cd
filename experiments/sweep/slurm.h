#pragma once

#include <map>
#include <set>
#include <string>

#include "experiments/sweep/task_array.h"

namespace sluice::sweep {

/// Arguments of a submission of a job array.
struct Submission {
  int tasks = 0;
  int at_once = 0;         ///< at most so many; 0: as Slurm has room
  std::string after = {};  ///< it begins when that job is over; empty: at once
};

/// Submits the array's script with sbatch, and notes the job's id. Throws
/// UserError when there is no sbatch, or it refuses, with what it says.
void submit(const TaskArray& array, const Submission& submission);

/// Throws UserError when PATH has no sbatch: before anything is written.
void check_sbatch();

/// Most tasks that an array may have on this cluster.
int most_tasks();

/// The numbers of the tasks that are in Slurm's queue, by job; of this user.
/// Throws UserError when squeue doesn't answer.
std::map<std::string, std::set<int>> queued_tasks();

/// What Slurm does for a sweep: the tasks that are in its queue, by the folders
/// of their runs, as "12_3". A task that is not there any more and has ended
/// without a word leaves its run marked as failed. Throws UserError when squeue
/// doesn't answer; it isn't called when the sweep has no arrays.
std::map<std::string, std::string> tasks_of_sweep(
    const std::string& sweep_folder);

}  // namespace sluice::sweep
