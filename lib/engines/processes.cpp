#include "lib/engines/processes.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lib/base/awake_clock.h"
#include "lib/base/error.h"
#include "lib/base/peer_missing.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/control.h"
#include "lib/engines/progress_board.h"
#include "lib/engines/pulse.h"

namespace sluice {
namespace {

/// How long workers have to end by themselves, and say why, after one failed
/// or after the last grant.
constexpr std::chrono::seconds kGrace(5);

/// How often it is looked whether all have joined.
constexpr std::chrono::milliseconds kJoining(20);

/// Looks at the board from a thread of its own, and kills a worker that hangs:
/// then the others find it gone.
class Watch {
 public:
  Watch(const ProgressBoard& board, ChildProcesses& children,
        const ProcessHooks& hooks)
      : board_(board), children_(children), hooks_(hooks) {
    thread_ = std::jthread([this](const std::stop_token& over) { look(over); });
  }

  /// Kills whoever has stalled for so long, once.
  void kill_stalled(Deadline deadline) {
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    std::optional<Stalled> stalled = board_.stalled(deadline);
    if (!stalled) return;
    // Before they have their links, others are silent because it is.
    if (stalled->is_silent && !board_.all_heard())
      if (const int stopped = children_.stopped()) stalled->block = stopped;
    lost_.emplace(stalled->block, reason(*stalled));
    if (stalled->block == 0)
      children_.kill_all();
    else
      children_.kill(stalled->block);
  }

  /// Whom it has killed, and why.
  std::optional<WorkerLost> lost() {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  std::string reason(const Stalled& stalled) const {
    if (stalled.block == 0) return stalled.why;
    const std::string what =
        fmt::format("{} {}", children_.name_of(stalled.block), stalled.why);
    if (stalled.is_silent) return what;
    return fmt::format(
        "{}; timeout is {:g} s: set it above what any single action may take",
        what, std::chrono::duration<double>(hooks_.deadline).count());
  }

  void look(const std::stop_token& over) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any ended;
    bool joined = false;
    while (!over.stop_requested()) {
      kill_stalled(hooks_.deadline);
      if (!joined && board_.all_heard()) {
        joined = true;
        if (hooks_.all_joined) hooks_.all_joined();
      }
      ended.wait_for(lock, over,
                     joined ? heartbeat_period(hooks_.deadline) : kJoining,
                     [] { return false; });
    }
  }

  const ProgressBoard& board_;
  ChildProcesses& children_;
  const ProcessHooks& hooks_;
  std::mutex mutex_;  // guards lost_
  std::optional<WorkerLost> lost_;
  std::jthread thread_;  // last: it uses all of the above
};

/// Looks at the workers until all have joined.
class Joining {
 public:
  Joining(ChildProcesses& children, Deadline deadline)
      : children_(children), deadline_(deadline) {}

  void check() {
    children_.check_joining();
    const int stopped = children_.stopped();
    const AwakeClock::Clock::time_point now = clock_.now();
    if (std::exchange(stopped_, stopped) != stopped) since_ = now;
    if (stopped != 0 && now - since_ >= deadline_)
      throw children_.missing(stopped);
  }

 private:
  ChildProcesses& children_;
  const Deadline deadline_;
  AwakeClock clock_;
  int stopped_ = 0;
  AwakeClock::Clock::time_point since_ = {};
};

std::vector<Link> meet(const ProcessHooks& hooks, ChildProcesses& children) {
  Joining joining(children, hooks.deadline);
  try {
    return hooks.meet([&] { joining.check(); });
  } catch (const WorkerLost&) {
    throw;
  } catch (const PeerMissing& missing) {
    throw children.missing(static_cast<int>(missing.block()), missing.what());
  } catch (const LinkError& error) {
    throw WorkerLost(0, error.what());
  }
}

}  // namespace

void run_processes(int blocks, const ProcessHooks& hooks,
                   Coordinator& coordinator, std::shared_ptr<Witness> witness) {
  ChildProcesses children;
  for (int block = 1; block <= blocks; ++block)
    if (const auto command = hooks.command(block); !command.empty())
      children.start(block, command, hooks.input);
  std::vector<Link> links = meet(hooks, children);
  // The watch looks twice as often.
  ProgressBoard board(blocks, 2 * heartbeat_period(hooks.deadline));
  ControlServer server(std::move(links), coordinator, std::move(witness),
                       &board);
  Watch watch(board, children, hooks);
  try {
    server.serve([&] {
      // Its neighbours may have given it up a little before the board does.
      watch.kill_stalled(hooks.deadline / 2);
      children.kill_after(kGrace);
    });
  } catch (const LinkError& error) {
    if (const auto killed = children.wait(kGrace)) throw *killed;
    if (const auto hung = watch.lost()) throw *hung;
    throw WorkerLost(server.failed_block(), error.what());
  }
  // All is done and written; how a worker ends now changes nothing.
  if (const auto ended = children.wait(kGrace))
    fmt::print(stderr, "sluice: after its work was done, {}\n", ended->what());
}

}  // namespace sluice
