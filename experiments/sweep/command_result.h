#pragma once

#include <string>
#include <vector>

namespace sluice::sweep {

/// Exit status and output of a command.
struct CommandResult {
  int status = 0;  ///< its exit status; -1: a signal ended it
  std::string out = {};
  std::string err = {};
};

/// Runs argv[0], which is looked for in PATH, to its end; its standard input is
/// empty. Throws UserError when it can't be started.
CommandResult captured(const std::vector<std::string>& argv);

}  // namespace sluice::sweep
