#pragma once

#include <chrono>
#include <string>

#include <sys/types.h>

namespace sluice {

/// A command line in a process group of its own, as a terminal or `timeout` has
/// it; killed with this object.
class ProcessGroup {
 public:
  /// What it prints goes to the file `output`.
  ProcessGroup(const std::string& command, const std::string& output);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// To all of its processes.
  void signal(int number) const;
  /// To the first one alone.
  void signal_leader(int number) const;
  /// The exit status of the first one, when it has ended; of a signal's end,
  /// 128 more than the signal, as shells have it; -1: it hasn't ended.
  int wait(std::chrono::seconds most = std::chrono::minutes(5));

 private:
  bool is_over();

  pid_t leader_ = 0;
  bool over_ = false;
  int status_ = 0;
};

/// A number from the environment, where it is given.
unsigned from_environment(const char* name, unsigned otherwise);

/// Seed of what is random in a test: printed, and repeated with SLUICE_SEED.
unsigned random_seed();

}  // namespace sluice
