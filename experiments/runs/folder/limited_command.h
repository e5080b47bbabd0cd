#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// What a command may take before it and its children are killed.
struct CommandLimits {
  std::chrono::milliseconds time;
  std::int64_t bytes;  ///< of its standard output
};

struct CommandEnd {
  std::string out = {};
  std::string failure = {};  ///< empty: it ended with status 0
};

/// Runs a command, found on PATH, with nothing to read and its complaints
/// thrown away. `environment` has NAME=VALUE. Never throws for what the command
/// does.
CommandEnd run_limited(const std::vector<std::string>& argv,
                       const std::vector<std::string>& environment,
                       const CommandLimits& limits);

}  // namespace sluice
