#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/engines/switch.h"
#include "lib/metrics/early_stop.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/plan/epochs.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// How long a run is, and what is decided on the way.
struct RunLength {
  std::int64_t first_turn = 0;   ///< above 0 when a run is continued
  std::int64_t first_batch = 0;  ///< Grant::first_batch of all its grants
  std::int64_t turns = 0;        ///< where it ends
  /// Where it is interrupted, as by request_stop(): the end of a grant, such as
  /// a turn that it evaluates after; 0: nowhere.
  std::int64_t pause_turn = 0;
  Rhythm evaluate_every = {};    ///< never: at the end only
  Rhythm checkpoint_every = {};  ///< never: at the end only
  std::int64_t evaluation_batches = 0;
  bool initial_checkpoint = false;
  bool checkpoint_evaluations = false;  ///< save whatever is evaluated
  bool drain = true;
  /// Whether each replica has its share of the batches: what a lost one had
  /// left is left out.
  bool has_shares = true;
  std::int64_t grant_turns = 16;  ///< the most turns of one grant
  /// Where no block gets its next grant before all have reached the last.
  std::vector<Barrier> barriers = {};  ///< by phase; missing: none
  EarlyStopOptions early_stop = {};
  std::int64_t first_phase = 0;       ///< of the turn that is begun with
  std::vector<Switch> switches = {};  ///< [i] begins phase i + 1
};

/// Decides for the whole run, at turn boundaries only. A decision is a grant:
/// every worker gets the same sequence of them, each decided when it is first
/// asked for. The first grant has no turns: when all blocks have reached it,
/// all are there, and the clock starts. Safe to use from several threads.
class Coordinator {
 public:
  /// on_checkpoint(turn) is called when all blocks have saved theirs, with the
  /// coordinator locked.
  Coordinator(RunLength length, int blocks, std::shared_ptr<Sink> sink,
              std::function<void(std::int64_t turn)> on_checkpoint);

  enum class Answer : std::uint8_t {
    granted,
    later,  ///< it depends on an evaluation that isn't over yet
    over    ///< there is no grant n
  };
  struct CoordinatorReply {
    Answer answer = Answer::over;
    Grant grant = {};
  };
  /// Asks for grant n of the run.
  CoordinatorReply ask(std::size_t n);

  /// Notes that a block has carried out its n-th grant.
  void reached(int block, std::size_t n);
  /// The run goes on without a replica, which had carried out so many grants.
  void lost(int replica, std::size_t grants, const std::string& reason);
  /// A replica joins the run with that grant, or the next.
  void joined(int replica, std::size_t first_grant);
  void write(const Record& record);
  /// Takes a record of the part of the run that is being continued.
  void recall(const Record& record);
  /// The run ends at the end of what has been granted, with a checkpoint to
  /// continue from. May be called from a signal handler.
  void request_stop() { stop_.store(true); }
  /// Whether that was called.
  bool is_stopping() const { return stop_.load(); }
  /// Whether request_stop() ended the run before its last turn.
  bool interrupted() const { return interrupted_; }
  /// Turns that have been granted so far; after the run, where it ended.
  std::int64_t turns_granted();
  /// Seconds from the moment when all blocks were there to the last grant that
  /// all have reached.
  double seconds();

 private:
  std::int64_t turn_after(std::size_t grants) const;
  Grant first_grant() const;
  Grant decide();
  Barrier barrier() const;
  bool begins_phase(const Grant& before) const;
  const Switch* next_switch() const;
  void enter(std::int64_t phase, std::int64_t turn);
  void evaluated(const records::Evaluation& evaluation);
  Grant next_turns(const Grant& before) const;
  Grant rest_of(const Grant& play) const;
  void decide_end(Grant& grant) const;
  bool must_wait() const;

  RunLength length_;
  std::size_t blocks_;
  std::shared_ptr<Sink> sink_;
  std::function<void(std::int64_t)> on_checkpoint_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> interrupted_ = false;

  std::mutex mutex_;  // guards all below
  EarlyStop early_stop_;
  std::int64_t phase_ = 0;
  bool switch_is_due_ = false;  // an evaluation has said so
  std::vector<Grant> decided_;
  std::vector<std::size_t> reached_by_;  // per grant: how many blocks
  std::chrono::steady_clock::time_point all_there_ = {};
  std::chrono::steady_clock::time_point last_reached_ = {};
};

}  // namespace sluice
