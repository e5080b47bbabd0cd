#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lib/base/error.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

/// A worker died, hangs or can't be reached: the run isn't to blame, and could
/// go on with others in its place.
class WorkerLostError : public LinkError {
 public:
  WorkerLostError(int block, const std::string& text)
      : LinkError("{}", text), block_(block) {}
  /// The block that the lost worker ran; 0: unknown.
  int block() const { return block_; }

 private:
  int block_;
};

/// Command that starts a child process.
struct ChildCommand {
  std::vector<std::string> arguments = {};  ///< argv
  std::string file = {};  ///< what is executed; empty: the first argument
  /// "NAME=value" of its environment, beside this process's.
  std::vector<std::string> environment = {};
};

/// The worker processes of a run on this host. They are started anew (no fork
/// once LibTorch has threads) and none outlives this object: what still runs is
/// killed and waited for. Safe to use from several threads.
class ChildProcesses {
 public:
  explicit ChildProcesses(const SeatNames& names = {}) : names_(names) {}
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Starts the worker of a block. stopping_signals() are blocked in it until
  /// it calls leave_signals_to_launcher(). `input` is all that it reads on its
  /// standard input: no other process sees it, as it would see the arguments.
  /// At most 4096 bytes. Throws UserError when it can't start.
  void start(int block, const ChildCommand& command,
             const std::string& input = "");
  /// Throws when one has failed: WorkerLostError, or UserError when it said
  /// what the user can mend.
  void check();
  /// Throws as check() does, and also when one has ended without an error: no
  /// worker has done its work before it has joined the others.
  void check_joining();
  /// A block whose process is stopped (SIGSTOP); 0: none is.
  int stopped();
  /// Name of a worker in messages: "the worker process 1234 of block 2".
  std::string name_of(int block);
  /// Error for a worker that did not join the others, with the reason if known.
  WorkerLostError missing(int block, const std::string& why = "");
  /// Text about a signal that has ended the block's process and was not ours.
  /// Empty: it runs, or ended otherwise.
  std::string how_ended(int block);
  /// Stops a block's process at once (SIGKILL), or all of them.
  void kill(int block);
  void kill_all();
  /// Kills the worker of a block, however it may end: its loss is known
  /// already.
  void abandon(int block);
  /// Whether one has not ended.
  bool some_run();
  /// Waits until all have ended; what hasn't after `grace` is killed. Says
  /// which one was ended by a signal that was not ours.
  std::optional<WorkerLostError> wait(std::chrono::milliseconds grace);

 private:
  struct Child {
    int block = 0;
    pid_t pid = 0;
    bool running = true;
    bool killed = false;  // by us
    bool unseen = false;  // its end: SIGCHLD is ignored here
    int status = 0;
  };
  static void reap(Child& child, int options);
  static void kill(Child& child);
  static bool has_failed(const Child& child);
  WorkerLostError loss_of(const Child& child) const;

  const SeatNames names_;
  std::mutex mutex_;  // guards children_
  std::vector<Child> children_;
};

/// What a worker's own limit of processor time means.
enum class TimeLimit : std::uint8_t { nothing, stops_launcher };

/// For a worker: stopping_signals(), which a terminal, `timeout` or a scheduler
/// sends to all processes of a run, mean nothing to it. The launcher decides,
/// and its end is the worker's.
void leave_signals_to_launcher(TimeLimit limit = TimeLimit::nothing);

/// Lets the kernel kill this worker when its parent ends; to be called first.
/// Does nothing when `parent` is no longer the parent: then it exits at once.
void die_with_parent(pid_t parent);

}  // namespace sluice
