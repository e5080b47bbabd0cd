#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace sluice {

/// The worker processes of a run on this host. They are started anew (no fork
/// once LibTorch has threads) and none outlives this object: what still runs is
/// killed and waited for. Safe to use from several threads.
class ChildProcesses {
 public:
  ChildProcesses() = default;
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Starts argv[0] with those arguments and this process's environment; the
  /// name ("block 2") is for messages. Throws UserError when it can't start.
  void start(const std::string& name, const std::vector<std::string>& argv);
  /// Throws LinkError naming one that has ended with an error.
  void check();
  /// Asks all to stop at once (SIGKILL).
  void kill_all();
  /// Kills what still runs after so long, unless this object goes first. Only
  /// the first call counts.
  void kill_after(std::chrono::milliseconds grace);
  /// Waits until all have ended; what hasn't after `grace` is killed. Throws
  /// LinkError naming one that failed, first one that was ended by a signal
  /// that was not ours.
  void wait(std::chrono::milliseconds grace);

 private:
  struct Child {
    std::string name;
    pid_t pid = 0;
    bool running = true;
    bool killed = false;  // by us
    int status = 0;
  };
  void reap(Child& child, int options);
  static void throw_if_failed(const Child& child);

  bool some_run();

  std::mutex mutex_;  // guards children_
  std::vector<Child> children_;
  std::once_flag grace_once_;
  std::jthread grace_;
};

/// For a worker, as its first act: the kernel kills it when its parent ends.
/// Does nothing when `parent` is no longer the parent: then it exits at once.
void die_with_parent(pid_t parent);

}  // namespace sluice
