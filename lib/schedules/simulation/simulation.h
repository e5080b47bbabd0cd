#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/by_block.h"
#include "lib/base/messages/channel.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/admissions.h"
#include "lib/schedules/plan/gathering.h"
#include "lib/schedules/plan/ledger.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/replicas/dealer.h"
#include "lib/schedules/simulation/costs.h"
#include "lib/schedules/simulation/recorded_loss.h"
#include "lib/schedules/simulation/simulated_channel.h"

namespace sluice {

/// An action with its times, in seconds of virtual time.
struct TimedAction {
  int seat = 1;
  Action action = {};
  double start = 0;
  double end = 0;
  double arrival = 0;  ///< of the message that it sends, if any, at the other
};

/// State of the virtual clock in a checkpoint.
struct SavedClock {
  std::vector<double> seats = {};  ///< by number; empty: it begins at 0
  /// Arrival times of the gradients in flight, by (seat, batch).
  std::map<std::pair<int, std::int64_t>, double> gradients = {};

  double latest() const;
};

/// State of a simulation of one phase in lockstep, without evaluations: what
/// each seat does next and what is under way, with the numbers of turns and
/// batches from those of a turn on, and times from the clock of seat 1 on.
/// Programs and costs left out, what comes follows from it.
struct SimulationState {
  double time = 0;  ///< clock of seat 1
  std::vector<std::int64_t> places = {};
  std::vector<double> times = {};
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
  /// capacities: index n-1 for link n (links_of()).
  Simulation(Plans plans, Costs costs, std::vector<Capacity> capacities);

  /// Begins where a run was saved that had done the turns before `turn`, in a
  /// phase of its timetable, with a pipe that began with `first_batch`. Before
  /// all else. The clock goes on; but that a block waited for room is
  /// forgotten.
  void begin_at(std::int64_t phase, std::int64_t turn, std::int64_t first_batch,
                const SavedClock& saved = {});
  /// Begins where blocks run free: their ledgers (index k-1) say what each had
  /// done.
  void begin_free_at(std::int64_t phase, const std::vector<Ledger>& ledgers,
                     const SavedClock& saved = {});
  /// Begins, for a block that is idle, the first grant of a new pipe after a
  /// drain.
  void begin_pipe(int block, const Grant& first);
  /// Appends actions to a block's list. The actions are taken from a record:
  /// the messages that they name as dropped, or as written into a buffer, are
  /// dropped or written so. Throws UserError when that is impossible, or an
  /// action is of a phase that doesn't exist.
  void extend(int block, const std::vector<Action>& actions);
  /// Gives an idle block a grant, to be run in lockstep or free as the plan
  /// says.
  void give(int block, const Grant& grant);
  /// Takes a replica out, where blocks run free and a centre serves replicas:
  /// it is lost then, or hasn't joined yet. Batches that it was dealt and that
  /// its centre hasn't taken are dealt again.
  void lose(int replica, double time);
  /// A replica that was taken out joins, between two grants: its seats are to
  /// be given the next one, with Grant::joins.
  void admit(int replica, double time);
  /// Notes a loss of which a record says: what comes after it at the centre
  /// comes when the replica has done all of extend() until then.
  void note_loss(const RecordedLoss& loss);
  /// Batches of lost replicas that were not dealt again.
  const std::set<std::int64_t>& returned() const { return dealer_.returned(); }
  /// Keeps the block from acting before that time.
  void hold(int block, double until);
  /// The next action in the order of virtual time (ties: the lowest block; of
  /// blocks that run free the one that has begun the fewest turns), or nothing
  /// when no block can do anything.
  std::optional<TimedAction> next();
  bool idle(int block) const;
  /// Whether all blocks have done everything.
  bool finished() const;
  /// One sentence that names the cycle of blocks waiting for each other; only
  /// when next() returned nothing and finished() is false.
  std::string stuck() const;
  /// Channels that keep a block from acting because they are full, as
  /// (link, is_up).
  std::vector<std::pair<int, bool>> full_channels() const;
  /// Increases the capacity of that channel by one message.
  void widen(int link, bool is_up);
  /// Turn of the seat's next action, if it has one.
  std::optional<std::int64_t> turn_of_next(int seat) const;
  /// The least of all these.
  std::int64_t least_turn() const;
  SimulationState state(std::int64_t turn) const;

 private:
  /// An exchange of a block's replicas that some have not settled.
  struct Meeting {
    std::int64_t turn = 0;
    ExchangeKind kind = ExchangeKind::none;
    int published = 0;
    int settled = 0;
    double all_published = 0;
    std::map<int, double> published_at = {};  ///< by replica, among peers
  };
  /// The centre of a block, where it serves the replicas as they come.
  struct CentreQueue {
    /// Arrival times of what seats have brought, with the seats, which still
    /// wait.
    std::set<std::pair<double, int>> waiting = {};
    /// Seats that have brought something, until they have what they came for,
    /// with those times.
    std::map<int, double> visitors = {};
    std::int64_t served = 0;
    std::vector<RecordedLoss> losses = {};
    std::set<std::int64_t> left_out = {};  ///< places that are of losses
    std::set<std::int64_t> dropped = {};   ///< places of pushes, before a merge
    double free_since = 0;
    /// State of a centre where replicas wait for others: those that wait, and
    /// the results, by replica, that need no more wait.
    struct MergePoint {
      double since = 0;
      std::int64_t served = 0;  ///< of all, then
      std::int64_t turn = -1;   ///< that was merged last
    };
    std::optional<Gathering> gathering = {};
    std::map<int, MergePoint> merged = {};
    std::map<int, std::int64_t> brought = {};  ///< batches, by replica
    bool is_told = false;  ///< a record says when those who wait are merged
  };
  /// Messages of a seat's next action.
  struct NextTransfers {
    bool is_known = false;
    std::vector<Transfer> needs = {};
    std::vector<Transfer> yields = {};
  };
  struct Lane {
    std::deque<Action> actions;
    /// Turns whose actions follow these, which are made when it is their time.
    std::deque<Grant> later = {};
    NextTransfers transfers = {};
    /// Stage of the next action, as it is counted in stages_.
    std::optional<std::int64_t> stage = {};
    /// Number of exchanges that the seat has published, and settled, so far.
    std::int64_t published = 0;
    std::int64_t settled = 0;
    double clock = 0;
    int lives = 0;  ///< replicas that have joined there
    /// Turn at which the replica joined, -1: it has been there from the start.
    std::int64_t joined = -1;
    /// Number of times that replicas which share weights have agreed.
    std::int64_t rests = 0;
    /// The number of rests, and whether an evaluation or a checkpoint is next,
    /// as they are counted in rests_.
    std::int64_t counted_rests = 0;
    bool counted_at_it = false;
    Ledger ledger;
    /// Places of the block's actions among those of an executor that it shares,
    /// and how many of those were given.
    std::deque<std::int64_t> places = {};
    std::int64_t given = 0;
    /// Chooses the actions of a block that runs free; `actions` then holds what
    /// it would do next.
    std::optional<FreeRunning> chooser = {};
    /// Whether it took the one that could start first, of which another could
    /// come first where all have to wait for a core.
    bool is_choice_of_time = false;
    Admissions<double> admissions = {};
  };

  /// Restores gradients in flight and the clocks of the blocks.
  void begin_with(const std::vector<Transfer>& gradients,
                  const SavedClock& saved);
  void group_by_executor();
  /// Appends actions to a block's list.
  void append(int block, const std::vector<Action>& actions);
  /// Makes the actions of the next turns of a block that has none left.
  void refill(int block);
  /// give(), for a block that shares its executor with others.
  void give_shared(int block, const Grant& grant);
  /// Whether the executor has done all actions before the block's next one.
  bool is_its_turn(int block) const;
  /// The block whose action is next at this block's executor; 0: none is left.
  int comes_before(int block) const;
  const std::vector<int>& of_same_executor(int block) const;
  int executor_of(int block) const;
  int link_of(const Transfer& transfer) const;
  SimulatedChannel& channel(const Transfer& transfer);
  const SimulatedChannel& channel(const Transfer& transfer) const;
  /// Transfers of the seat's next action.
  const NextTransfers& transfers_of(int seat);
  /// Time at which the block's next action has all its inputs, a free core not
  /// counted.
  std::optional<double> ready_at(int block);
  /// Time at which an action that is ready then can start.
  std::optional<double> start_of(int block, std::optional<double> ready) const;
  /// Place of a seat among those that can act: the first to be ready comes
  /// first; of several, what turn_in_ties() says, then the one that runs free
  /// and has begun the fewest turns, then the lowest.
  struct Place {
    double ready = 0;
    std::int64_t turn = 0;
    std::int64_t turns_begun = 0;
    int seat = 0;
    std::int64_t version = 0;  ///< Outlook::version of the seat, then

    auto operator<=>(const Place&) const = default;  // NOLINT
  };
  /// What is known of when a seat can act.
  struct Outlook {
    bool is_known = false;
    std::int64_t version = 0;  ///< one more whenever it is forgotten
  };
  /// Seats that take their cores from the same ones, the first in front. Places
  /// of forgotten outlooks stay until they come to the front.
  using Line = std::priority_queue<Place, std::vector<Place>, std::greater<>>;
  void look_ahead(int seat);
  void look_at_all_unknown();
  const Place* first_of(Line& line);
  std::int64_t turn_in_ties(int seat) const;
  /// Forgets what may have changed by an action, to be looked at anew.
  void forget_after(int seat);
  void forget_all();
  void forget(int block);
  void forget_beside(int block);
  void forget_dealt();
  /// Since when the cores that the block shares are free; nullptr: it has its
  /// own.
  const std::vector<double>* cores_of(int block) const;
  void occupy(int block, double end);
  /// Time at which the replay buffer below the block has an input for it, if it
  /// has.
  std::optional<double> input_since(int block) const;
  /// The centre beside replica 1 of the block.
  CentreQueue& centre_of(const BlockPlan& mine);
  /// The seat beside which the centre is that the visit comes to.
  int host_seat(const BlockPlan& mine, const Action& visit) const;
  static void skip_left_out(CentreQueue& centre);
  void forget_visitors(const CentreQueue& centre);
  void bring(const BlockPlan& mine, std::int64_t turn, double time);
  void rest(const BlockPlan& mine, double time);
  /// Merges what waits at a centre, where it is time.
  void merge_if_complete(CentreQueue& centre, double time);
  void merge(CentreQueue& centre, double time);
  /// Whether a record says that others merge before that one is served.
  bool others_merge_before(const BlockPlan& mine, const CentreQueue& centre,
                           std::int64_t place) const;
  std::optional<double> merged_since(int seat) const;
  bool merge_those_who_wait();
  void take_merged(int seat, double now, Action& action);
  static void set_next(Lane& lane, const Action& action);
  void choose(int block);
  bool is_dealt(int seat) const;
  /// Whether a dealer has the batches of that seat's forwards.
  bool is_dealt_to(int seat) const;
  void take_deal(int seat, const Action& forward);
  /// Notes that the centre of block 1 has taken what a replica brought.
  void note_taken(int block, int replica, std::int64_t batch);
  std::vector<int> seats_of(int replica) const;
  /// Whether the seats of a replica have done all that the one did which had
  /// its place before; true where the next action is none of one that joins.
  bool is_entry_due(int seat) const;
  void begin_life(int seat, const Action& entry);
  void empty_channels(int replica);
  void lose_at_centre(const BlockPlan& mine, double time);
  void lose_at_meetings(const BlockPlan& mine);
  bool is_at_end(int replica, double time) const;
  /// Time at which all that the block's next action takes had come; 0 where
  /// that doesn't matter to the block.
  double arrived_at(int block);
  /// Writes what has arrived by then into the replay buffer below a block,
  /// while it has room: a block that has read as often as its grant has turns
  /// finds room for all of the grant's batches (ReplayBuffer::has_room()), and
  /// those of the next grant are not to be dropped.
  void fill_buffer(int block, double now);
  void write_buffer(int block, double now);
  bool take_before_evaluation();
  /// Whether the block follows a given list of actions, and doesn't run free.
  bool is_told(int block) const { return !by_block(lanes_, block).chooser; }
  void take_told(int block, double now, const Action& action);
  void read_buffer(int block, double now, Action& action);
  void send(const Transfer& transfer, double time, Action& action);
  /// Index of the stage (the interval between two barriers) of the block's next
  /// action; nothing for an action that doesn't wait at barriers.
  std::optional<std::int64_t> stage_of(int block) const;
  /// A block that has not come to the barrier before this block's next action;
  /// 0 when there is none.
  int behind(int block) const;
  bool is_anyone_behind(std::int64_t stage) const;
  /// Notes the stage of the seat's next action.
  void count_stage(int seat);
  void meet(int seat, const Action& action, double end);
  /// Simulates an exchange with the centre of the block.
  void visit(int seat, const Action& action, double end);
  /// Time at which the centre has served the seats before this one; nothing:
  /// not yet.
  std::optional<double> served_since(int seat) const;
  /// End of an action that starts at `start`.
  double end_of(int seat, const Action& action, double start) const;
  const Meeting* meeting_of(int seat) const;
  std::int64_t taking_part(const BlockPlan& mine, const Action& exchange) const;
  bool are_lost_done(const BlockPlan& mine, const Action& exchange) const;
  std::int64_t rests_before(const Action& entry, int block) const;
  void enter(int seat, const Action& entry);
  /// Whether those that were lost before the seat's next action have done all
  /// that they did. The first replica comes to a rest after these, so that it
  /// isn't over before.
  bool are_losses_over(int seat) const;
  bool is_over(const RecordedLoss& loss) const;
  /// Time at which all have published that the block's next action, which
  /// settles, takes from.
  std::optional<double> published_since(int seat) const;
  /// Time at which replicas have exchanged what an action settles; 0 for other
  /// actions.
  std::optional<double> settled_since(int seat) const;
  /// Replicas that share weights wait only here: they agree before an
  /// evaluation or a checkpoint, and go on together when it is over. So their
  /// order afterwards doesn't depend on how long it took, nor on whether the
  /// run was continued there. Another one that is still at it; 0: none is, or
  /// the seat's next action is a part of it.
  int at_rest(int seat) const;
  /// Time at which that agreement of another replica was over; 0 where none
  /// waits for it. Nothing: not yet.
  std::optional<double> rested_since(int seat) const;
  /// Notes whether the seat's next action is of a rest.
  void count_rests(int seat);
  void rest(int seat, const Action& action, double end);
  /// A replica that has not published what this one's next action settles.
  int awaited_replica(int seat) const;
  const RunPlan& plan(std::int64_t phase) const;
  /// The plan of the phase of the lane's next action.
  const RunPlan& plan_of(const Lane& lane) const;
  /// The block that this one waits for, and why; 0 when it waits for none.
  std::pair<int, std::string> waits_for(int block) const;

  Plans plans_;
  Costs costs_;
  std::vector<Lane> lanes_;  // by seat
  std::map<std::pair<int, std::int64_t>, Meeting>
      meetings_;                        // by block, and how many were before
  std::map<int, CentreQueue> centres_;  // by the seat beside which they are
  /// Seats that agree with the others of their block before a turn, by block
  /// and turn, where a record says what they do.
  std::map<std::pair<int, std::int64_t>, std::set<int>> agreeing_;
  std::set<int> lost_;                  // replicas, of free blocks
  Dealer dealer_;                       // of free replicas, by arrival
  std::vector<std::int64_t> done_;      // by executor: its actions
  std::vector<SimulatedChannel> up_;    // index of the link - 1
  std::vector<SimulatedChannel> down_;  // index of the link - 1
  std::map<SeatPair, int>
      uneven_links_;  // links_of(); empty: by the lower seat
  std::vector<std::vector<int>> beside_;    // by seat: of the same executor
  std::vector<int> buffered_;               // seats above a replay buffer
  std::vector<std::vector<double>> cores_;  // as Costs::shared
  std::vector<std::optional<std::size_t>> core_;  // by seat: in cores_
  /// The seat whose action comes next, and when it can start; 0: none can.
  std::pair<int, double> next_seat();

  std::vector<Outlook> outlooks_;  // by seat
  std::vector<int> unknown_;       // seats without one, a heap
  std::vector<Line> lines_;        // as cores_; the last: own cores
  /// Whether an action changes nothing but for those that have messages with
  /// its seat, its executor, its replicas and its cores: no buffers, nothing
  /// dropped.
  bool is_local_ = true;
  bool is_dealt_ = false;      // whether any seat's batches are
  std::vector<int> dealt_to_;  // seats
  bool has_barriers_ = false;
  std::map<std::int64_t, int> stages_;  // lanes by the stage they are in
  std::int64_t stage_ = -1;             // the latest that a block has entered
  double stage_start_ = 0;
  /// Seats that have rested as often, and how many of them still do.
  struct Rests {
    int seats = 0;
    int at_it = 0;
  };
  bool shares_weights_ = false;  // whether replicas do
  std::map<std::int64_t, Rests> rests_;
  double latest_rest_ = 0;
  double latest_end_ = 0;  ///< of the actions that wait at barriers
};

/// A simulation of a grant for all blocks, before its first action.
Simulation granted(const RunPlan& plan, const Costs& costs,
                   const std::vector<Capacity>& capacities, const Grant& grant);
/// Throws UserError with the cycle when the blocks would wait for each other
/// for ever; to be called when next() has returned nothing.
void check_end(const Simulation& simulation);

/// Simulates a whole grant for all blocks, as the plan says.
std::vector<TimedAction> simulate(const RunPlan& plan, const Costs& costs,
                                  const std::vector<Capacity>& capacities,
                                  const Grant& grant);

/// Simulates the given actions of block k, index k-1. Throws UserError with the
/// cycle when the blocks would wait for each other for ever.
std::vector<TimedAction> simulate(
    const RunPlan& plan, const Costs& costs,
    const std::vector<Capacity>& capacities,
    const std::vector<std::vector<Action>>& actions);
/// Simulates the phases of a timetable.
std::vector<TimedAction> simulate(
    const Plans& plans, const Costs& costs,
    const std::vector<Capacity>& capacities,
    const std::vector<std::vector<Action>>& actions);

}  // namespace sluice
