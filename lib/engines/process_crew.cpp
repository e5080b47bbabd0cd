#include "lib/engines/process_crew.h"

#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "lib/base/awake_clock.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/base/messages/peer_missing.h"
#include "lib/engines/control.h"
#include "lib/engines/heartbeat.h"
#include "lib/engines/linked_crew.h"
#include "lib/engines/progress_board.h"

namespace sluice {
namespace {

/// Time that workers have to end by themselves, and say why, after one failed
/// or after the last grant.
constexpr std::chrono::seconds kGrace(5);

/// Pause between two looks at whether all workers have joined, or have ended.
constexpr std::chrono::milliseconds kOften(20);

/// Looks at the workers until all have joined.
class JoinWatch {
 public:
  JoinWatch(ChildProcesses& children, Deadline deadline)
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
  JoinWatch joining(children, hooks.deadline);
  try {
    return hooks.meet([&] { joining.check(); });
  } catch (const WorkerLostError&) {
    throw;
  } catch (const PeerMissingError& missing) {
    const int block = static_cast<int>(missing.block());
    throw children.missing(hooks.process_of ? hooks.process_of(block) : block,
                           missing.what());
  } catch (const LinkError& error) {
    throw WorkerLostError(0, error.what());
  }
}

class ProcessCrew final : public Crew {
 public:
  ProcessCrew(int blocks, ProcessHooks hooks, CrewEvents events,
              std::size_t ahead)
      : hooks_(std::move(hooks)),
        // Longer than a look may be late: it comes every such period.
        children_(hooks_.names),
        board_(blocks, 2 * heartbeat_period(hooks_.deadline),
               AwakeClock::Clock::now, hooks_.names) {
    bool are_ranks = false;  // that somebody else starts
    const int started = hooks_.started == 0 ? blocks : hooks_.started;
    for (int block = 1; block <= started; ++block)
      if (const ChildCommand command = hooks_.command(block);
          !command.arguments.empty())
        children_.start(block, command, hooks_.input);
      else
        are_ranks = true;
    Supervision supervision{
        .board = &board_,
        .look = [this] { return look(); },
        .on_failure = [this] { one_failed(); },
        .survives_loss = hooks_.survives_loss,
        .on_loss = [this](int seat) { children_.abandon(process_of(seat)); },
        .newcomers = hooks_.newcomers};
    // Links between processes of our own have no deadline to run into.
    if (are_ranks)
      supervision.first_stalls = hooks_.deadline / 2;
    else
      supervision.how_ended = [this](int seat) {
        return children_.how_ended(process_of(seat));
      };
    std::vector<Link> links = meet(hooks_, children_);
    links.resize(static_cast<std::size_t>(blocks));
    linked_.emplace(std::move(links), std::move(events), ahead,
                    std::move(supervision), hooks_.names);
  }

  void give(const Grant& grant, std::span<const Batch> batches) override {
    linked_->give(grant, batches);
  }
  CrewProgress progress() const override { return linked_->progress(); }
  std::optional<NamedTensors> weights() const override { return std::nullopt; }

  void wait() override {
    try {
      linked_->wait();
    } catch (const LinkError& error) {
      if (const auto killed = children_.wait(kGrace)) throw *killed;
      if (lost_) throw *lost_;
      throw WorkerLostError(linked_->failed_block(), error.what());
    }
    if (linked_->has_ended()) leave();
  }

 private:
  std::chrono::milliseconds look() {
    if (!joined_ && board_.all_heard()) {
      joined_ = true;
      if (hooks_.all_joined) hooks_.all_joined();
    }
    kill_stalled(hooks_.deadline);
    if (hooks_.may_wait_in_circle && board_.all_wait(circle_shows()))
      linked_->tell_centres({});
    if (linked_->is_failing() && clock_.now() >= grace_ends_) {
      children_.kill_all();
      linked_->give_up_all({.cause = Cause::peer_gone});
    }
    return joined_ && !linked_->is_failing() ? heartbeat_period(hooks_.deadline)
                                             : kOften;
  }

  /// Until then each worker has said twice that it waits.
  Deadline circle_shows() const {
    return std::max(kCircleShows, 2 * heartbeat_period(hooks_.deadline));
  }

  void one_failed() {
    grace_ends_ = clock_.now() + kGrace;
    // Half the deadline: the neighbours of a hanging worker may have given it
    // up a little before the board does.
    kill_stalled(hooks_.deadline / 2);
  }

  /// Kills the worker that has stalled for so long, once: then the others find
  /// it gone.
  void kill_stalled(Deadline deadline) {
    if (lost_) return;
    std::optional<Stall> stalled = board_.stalled(deadline);
    if (!stalled) return;
    // Until all workers have their links, one that is stopped keeps others
    // silent.
    if (stalled->is_silent && !board_.all_heard())
      if (const int stopped = children_.stopped()) stalled->block = stopped;
    const int block = stalled->block;
    const Failure failure = {block, Cause::link, reason(*stalled)};
    if (block != 0 && linked_->can_lose(block))
      return linked_->give_up(block, failure);
    lost_.emplace(block, failure.text);
    if (block == 0) {
      children_.kill_all();
      linked_->give_up_all(failure);
    } else {
      children_.kill(process_of(block));
      linked_->give_up(block, failure);
    }
  }

  int process_of(int block) const {
    return hooks_.process_of ? hooks_.process_of(block) : block;
  }

  std::string reason(const Stall& stalled) {
    if (stalled.block == 0) return stalled.why;
    std::string what = fmt::format(
        "{} {}", children_.name_of(process_of(stalled.block)), stalled.why);
    if (stalled.is_silent) return what;
    return fmt::format(
        "{}; timeout is {:g} s: set it above what any single action may take",
        what, std::chrono::duration<double>(hooks_.deadline).count());
  }

  /// Ends without a check: all is done and written, so it no longer matters how
  /// a worker ends.
  void leave() {
    if (const auto ended = children_.wait(kGrace))
      say("sluice: after its work was done, {}\n", ended->what());
  }

  const ProcessHooks hooks_;  // outlives what it made
  ChildProcesses children_;
  ProgressBoard board_;
  AwakeClock clock_;
  AwakeClock::Clock::time_point grace_ends_ = {};
  bool joined_ = false;
  std::optional<WorkerLostError> lost_;
  std::optional<LinkedCrew> linked_;
};

}  // namespace

std::unique_ptr<Crew> make_process_crew(int blocks, ProcessHooks hooks,
                                        CrewEvents events, std::size_t ahead) {
  return std::make_unique<ProcessCrew>(blocks, std::move(hooks),
                                       std::move(events), ahead);
}

}  // namespace sluice
