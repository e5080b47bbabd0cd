#pragma once

#include <string>

namespace sluice::sweep {

/// What the batch script of a job array tells the process of a task.
struct ArrayTaskArguments {
  std::string array;  ///< the folder of a TaskArray
  int task = 0;       ///< from 1 on
  std::string job;    ///< the array's id, as Slurm has it
  int cores = 0;      ///< that the task may use; 0: the machine's
  std::string program = {};
};

/// Does the run of a task as the local launcher would: continues it where it
/// was interrupted, tries it again, marks it when it fails. The exit status is
/// that of a sweep. Throws UserError when the task can't be read, or its job
/// is unknown: the sweep that has submitted it was killed then, and
/// another may have submitted the same.
int do_array_task(const ArrayTaskArguments& arguments);

}  // namespace sluice::sweep
