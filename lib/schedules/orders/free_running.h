#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/ledger.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// The choice of the next action in a block that runs free: not in a list, but
/// among those that it could do now. The block's turn is the newest batch that
/// it has forwarded, so that turn - batch is a staleness that is measured.
/// Touches neither channel nor clock: the caller knows which of the choices are
/// ready.
class FreeRunning {
 public:
  /// phases: the block's plan in each phase of the timetable; each with
  /// in_flight > 0.
  explicit FreeRunning(std::vector<BlockPlan> phases);

  /// To be called before give() where the block goes on: updates that it has
  /// made since its pipe began.
  void begin_after(std::int64_t updates) { updates_ = updates; }
  /// The turns that it may do next, and what follows them. Only when is_done().
  /// The first grant says with which turn it begins.
  void give(const Grant& grant);
  /// Whether it has carried out its grant: all batches are forwarded, so many
  /// are applied that one more could be forwarded (in a drain: all of them),
  /// and what follows is done too.
  bool is_done(const Ledger& ledger) const { return choices(ledger).empty(); }
  /// Actions that the block may do by what it has done, the best first: an
  /// update that is due, with the exchange that belongs to it, before a
  /// backward, before a lesson, before a forward. A lesson whose gradient came
  /// with its backward goes before the next backward. With goes_by_arrival()
  /// the order decides only between what came at one time.
  std::vector<Action> choices(const Ledger& ledger) const;
  bool goes_by_arrival() const;
  /// Number of batches that the block may forward before one of those that wait
  /// goes backward.
  std::int64_t room(const Ledger& ledger) const;
  /// Notes that the block did one of its choices, which is in its ledger too.
  /// What a settle has dropped is left out.
  void did(const Action& action);
  /// What comes next from below. Where batches may be left out there, it says
  /// which ones never come.
  void see(const MessageHead& first);
  /// Batches before that one never come any more.
  void see_end(std::int64_t end);
  /// The batch that a dealer would give the block now; nothing: all that its
  /// grant has are dealt. Until then the number of its forward is open.
  void see_deal(std::optional<std::int64_t> batch);
  /// Nothing more is dealt to the block in its grant.
  void end_deal() { is_told_end_ = true; }
  /// One past the last batch that it has begun or left out.
  std::int64_t next() const { return next_; }
  /// Batches that the block leaves out of its grant, because the others have
  /// done that turn without it.
  std::vector<std::int64_t> behind(std::int64_t turn) const;
  /// Whether only what follows the turns of its grant is left, or nothing.
  bool turns_are_over(const Ledger& ledger) const;
  /// Number of turns begun, with those of dropped batches; of dealt batches,
  /// those that the block has begun itself.
  std::int64_t turns() const {
    return plan().micro_batches.by_arrival ? forwards_ : next_;
  }

 private:
  void see_dealt_below(std::int64_t batch);
  void begin_batch(std::int64_t batch);
  /// One past the last batch of its grant.
  std::int64_t end() const;
  /// Whether a window is full.
  bool is_due(const Ledger& ledger) const;
  Action action(Op op, std::int64_t batch) const;
  const BlockPlan& plan() const;
  /// The update of the window that ends with the batch, and where it is one
  /// with an exchange, that before or after it.
  std::vector<Action> actions_of_update(std::int64_t batch) const;
  /// Actions that follow the turns of a grant, and have not been done.
  std::vector<Action> after_turns() const;
  Action agreement(Op op) const;
  Action entry(Op op) const;
  /// The oldest batches of each kind that wait for something.
  std::vector<Action> overdue(const Ledger& ledger) const;
  /// The batch with a mark that the block began first; of a checkpoint, all.
  std::vector<std::int64_t> oldest(const std::set<BatchRound>& marked) const;

  std::vector<BlockPlan> phases_;
  Grant grant_ = {};
  bool has_begun_ = false;
  std::int64_t next_ = 0;   // the batch of its next forward
  std::int64_t turn_ = -1;  // that of its last one
  /// Batches dealt to it, as it began them: the last ones. One that is dealt
  /// again has a lower number than those before it.
  std::deque<std::int64_t> begun_;
  std::int64_t forwards_ = 0;
  std::int64_t updates_ = 0;
  std::int64_t evaluated_ = 0;  // batches after the turns
  bool has_agreed_ = true;      // with the other replicas, after the turns
  std::deque<Action> due_;      // the rest of an exchange or update
  bool saved_ = true;
  bool is_told_end_ = false;  // of its grant, by the block below or a dealer
};

/// Whether the blocks of a run choose by themselves.
bool runs_free(const RunPlan& plan);

/// Whether a checkpoint holds all that its blocks need to go on. What lies in a
/// replay buffer, or waits to be sent or dropped, is in none.
bool can_be_continued(const RunPlan& plan);

/// The plan of a block in each phase.
std::vector<BlockPlan> phases_of(const Plans& plans, int block);

/// Gradients that were sent and not yet taken when blocks that run free have
/// done what their ledgers (index k-1) say: per boundary, in the order in which
/// they were sent.
std::vector<Transfer> under_way(const RunPlan& plan,
                                const std::vector<Ledger>& ledgers);

/// The plan of blocks that run free. in_flight: how many batches a block with a
/// delay, or one that learns from what comes later, may have in flight; 0: as
/// many as in lockstep. Throws UserError when the boundaries don't go together.
RunPlan make_free_plan(const std::vector<Traits>& boundaries,
                       std::int64_t accumulate = 1, std::int64_t in_flight = 0);

}  // namespace sluice
