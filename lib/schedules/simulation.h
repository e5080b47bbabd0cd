#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/by_block.h"
#include "lib/base/channel.h"
#include "lib/base/lossy_sender.h"
#include "lib/schedules/costs.h"
#include "lib/schedules/free_running.h"
#include "lib/schedules/ledger.h"
#include "lib/schedules/plan.h"
#include "lib/schedules/replay_buffer.h"

namespace sluice {

/// When an action ran, in seconds of virtual time.
struct TimedAction {
  int block = 1;
  Action action = {};
  double start = 0;
  double end = 0;
  double arrival = 0;  ///< of the message that it sends, if any, at the other
};

/// Where the virtual clock of a run was when the run was saved.
struct SavedClock {
  std::vector<double> blocks = {};  ///< index k-1; empty: it begins at 0
  /// When gradients that were on their way came to a block: (block, batch).
  std::map<std::pair<int, std::int64_t>, double> gradients = {};

  double latest() const;
};

/// Runs schedules on a virtual clock: the event loop of the virtual engine, and
/// without anybody executing the actions, the check of every schedule. Lockstep
/// blocks do their actions in order; an action starts when its block is free,
/// its inputs have arrived, its outputs have room, a core is free where blocks
/// share them, and all blocks have come to the barrier before it, if there is
/// one. Blocks that run free do of their
/// choices the one that can start first.
class Simulation {
 public:
  /// capacities: index k-1 for boundary k.
  Simulation(Plans plans, Costs costs, std::vector<Capacity> capacities);

  /// Begins where a run was saved that had done the turns before `turn`, in a
  /// phase of its timetable, with a pipe that began with `first_batch`. Before
  /// all else. The clock goes on; but that a block waited for room is
  /// forgotten.
  void begin_at(std::int64_t phase, std::int64_t turn, std::int64_t first_batch,
                const SavedClock& saved = {});
  /// The same where blocks run free: their ledgers (index k-1) say what each
  /// had done.
  void begin_free_at(std::int64_t phase, const std::vector<Ledger>& ledgers,
                     const SavedClock& saved = {});
  /// The block, which is idle, begins anew with a grant of a pipe that follows
  /// one that was drained.
  void begin_pipe(int block, const Grant& first);
  /// Gives a block more to do. What actions say of messages that were dropped,
  /// or written into a buffer, holds: they are a record. Throws UserError when
  /// that can't be, or an action is of a phase that there is not.
  void extend(int block, const std::vector<Action>& actions);
  /// The same for a grant, in the way of the plan: in lockstep or free. Only to
  /// a block that is idle.
  void give(int block, const Grant& grant);
  /// The block does nothing before that time.
  void hold(int block, double until);
  /// The next action in the order of virtual time (ties: the lowest block; of
  /// blocks that run free the one that has begun the fewest turns), or nothing
  /// when no block can do anything.
  std::optional<TimedAction> next();
  bool idle(int block) const;
  /// Whether all blocks have done everything.
  bool finished() const;
  /// Which block waits for which, as one sentence with the cycle; meaningful
  /// when next() gave nothing and finished() is false.
  std::string stuck() const;
  /// Boundaries whose channels kept a block from acting: what must grow.
  /// Entries are (boundary, is_up).
  std::vector<std::pair<int, bool>> full_channels() const;
  /// From now on that channel holds one message more.
  void widen(int boundary, bool is_up);

 private:
  struct Queued {
    Transfer transfer;
    double arrival = 0;
  };
  struct Direction {
    std::deque<Queued> queue;
    std::size_t capacity = 1;
    double room_since = 0;
    double free_since = 0;  ///< when it has carried all that was sent
    /// Where activations go when they arrive: the headers of what the block
    /// above has.
    std::optional<ReplayBuffer> buffer = {};
    double made_room = 0;  ///< when the buffer last could take more
    /// At the sender, where activations may be dropped.
    std::optional<WaitingRoom<Queued>> waiting = {};
    std::set<std::int64_t> dropped = {};  ///< batches of which that is told
  };
  struct Lane {
    std::deque<Action> actions;
    double clock = 0;
    Ledger ledger;
    /// For a block that shares its executor: where its actions stand among the
    /// executor's, and how many of those were given.
    std::deque<std::int64_t> places = {};
    std::int64_t given = 0;
    /// Chooses the actions of a block that runs free; `actions` then holds what
    /// it would do next.
    std::optional<FreeRunning> chooser = {};
  };

  /// Gradients that were on their way, and where the blocks' clocks were.
  void begin_with(const std::vector<Transfer>& gradients,
                  const SavedClock& saved);
  /// give(), for a block that shares its executor with others.
  void give_shared(int block, const Grant& grant);
  /// Whether the executor has done what comes before the block's next action.
  bool is_its_turn(int block) const;
  /// The block whose action is next at this block's executor; 0: none is left.
  int comes_before(int block) const;
  std::vector<int> of_same_executor(int block) const;
  int executor_of(int block) const;
  Direction& channel(const Transfer& transfer);
  const Direction& channel(const Transfer& transfer) const;
  /// When the block's next action has all that it waits for, but for a core.
  std::optional<double> ready_at(int block) const;
  /// When it can start.
  std::optional<double> start_of(int block) const;
  /// Whether a block comes before one that could start at the same time.
  bool comes_first(int block, int other) const;
  /// Since when the cores that the block shares are free; nullptr: it has its
  /// own.
  const std::vector<double>* cores_of(int block) const;
  void occupy(int block, double end);
  /// When the replay buffer below the block has an input for it, if it has.
  std::optional<double> input_since(int block) const;
  /// What the channel gives next to a block that asks for `wanted`.
  static const Queued* head_of(const Direction& from, const Transfer& wanted);
  std::optional<double> room_for(const Transfer& sent) const;
  void choose(int block);
  bool is_further_behind(int block, int other) const;
  /// Writes what has arrived by then into the replay buffer below a block,
  /// while it has room: a block that has read as often as its grant has turns
  /// finds room for all of the grant's batches (ReplayBuffer::has_room()), and
  /// those of the next grant are not to be dropped.
  void fill_buffer(int block, double now);
  void write_buffer(int block, double now);
  bool take_before_evaluation();
  /// Whether the block does what it was given, and chooses nothing.
  bool is_told(int block) const { return !by_block(lanes_, block).chooser; }
  void take_told(int block, double now, const Action& action);
  std::optional<double> told_input_since(const Direction& below,
                                         const Action& action) const;
  void read_buffer(int block, double now, Action& action);
  void send(const Transfer& transfer, double time, Action& action);
  void put(Direction& to, const Transfer& transfer, double time);
  void pop(Direction& from, double now);
  /// Between two barriers is a stage. That of a block's next action; nothing
  /// when it doesn't care for barriers.
  std::optional<std::int64_t> stage_of(int block) const;
  /// A block that has not come to the barrier before this block's next action;
  /// 0 when there is none.
  int behind(int block) const;
  const RunPlan& plan(std::int64_t phase) const;
  /// The plan of the phase of the lane's next action.
  const RunPlan& plan_of(const Lane& lane) const;
  /// The block that this one waits for, and why; 0 when it waits for none.
  std::pair<int, std::string> waits_for(int block) const;

  Plans plans_;
  Costs costs_;
  std::vector<Lane> lanes_;                       // index k-1
  std::vector<std::int64_t> done_;                // by executor: its actions
  std::vector<Direction> up_;                     // index of the boundary - 1
  std::vector<Direction> down_;                   // index of the boundary - 1
  std::vector<std::vector<double>> cores_;        // as Costs::shared
  std::vector<std::optional<std::size_t>> seat_;  // index k-1: in cores_
  std::int64_t stage_ = -1;  // the latest that a block has entered
  double stage_start_ = 0;
  double latest_end_ = 0;  ///< of the actions that care for barriers
};

/// Runs all blocks through a grant to its end, in the way of the plan.
std::vector<TimedAction> simulate(const RunPlan& plan, const Costs& costs,
                                  const std::vector<Capacity>& capacities,
                                  const Grant& grant);

/// Runs the actions (index k-1) to their end. Throws UserError with the cycle
/// when they would wait for each other for ever.
std::vector<TimedAction> simulate(
    const RunPlan& plan, const Costs& costs,
    const std::vector<Capacity>& capacities,
    const std::vector<std::vector<Action>>& actions);
/// The same of all phases of a timetable.
std::vector<TimedAction> simulate(
    const Plans& plans, const Costs& costs,
    const std::vector<Capacity>& capacities,
    const std::vector<std::vector<Action>>& actions);

}  // namespace sluice
