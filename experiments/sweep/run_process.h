#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace sluice::sweep {

/// What the launcher of a sweep tells the process of a run; the config comes on
/// its standard input.
struct RunProcessArguments {
  std::string folder;
  bool resume = false;
  bool overwrite = false;
  std::int64_t pause_turn = 0;  ///< RunLength::pause_turn
  std::string command;          ///< for run.json
  pid_t parent = 0;
};

/// Exit status of a run that was stopped with a checkpoint, and can continue.
constexpr int kStopped = 4;

/// Does one run of a sweep, without a word. The exit status: 0 done, or
/// kStopped. Throws what run() throws.
int do_run_of_sweep(const RunProcessArguments& arguments);

}  // namespace sluice::sweep
