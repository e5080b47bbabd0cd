#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/base/messages/message.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/added_delay.h"
#include "lib/schedules/plan/gradient_part.h"
#include "lib/schedules/plan/micro_batches.h"
#include "lib/schedules/plan/replica_exchange.h"
#include "lib/schedules/plan/traits.h"
#include "lib/schedules/plan/visits.h"

namespace sluice {

/// A block's place in its segment (the blocks between two cuts): the number of
/// blocks of the segment below it and above it. The nearest above sends it the
/// gradient that its backward waits for.
struct Segment {
  int below = 0;
  int above = 0;
  int blocks() const { return below + 1 + above; }
};

/// Step of an executor in a turn: an op of one of its blocks.
struct ExecutorStep {
  Op op = Op::forward;
  int chunk = 0;           ///< index among the executor's blocks, lowest first
  std::int64_t batch = 0;  ///< of the turn, from 0
};

struct Placement;
/// Makes the steps of an executor, from 0 in each replica, in a turn of so many
/// batches.
using ExecutorOrder = std::vector<ExecutorStep> (*)(const Placement& placement,
                                                    int executor,
                                                    std::int64_t batches);

/// Executors of a replica's blocks, as a table that a style of executors.h
/// makes.
struct Placement {
  /// Executor of block k at index k-1, from 0; empty: one for each block.
  std::vector<int> executors = {};
  int count = 0;  ///< executors in the table
  int first = 0;  ///< the replica's first executor, of those of all replicas
  /// Order of an executor that may have several blocks; BlockPlan::program is
  /// own_steps() then.
  ExecutorOrder steps = nullptr;

  /// Whether an executor has several blocks.
  bool is_shared() const { return count < std::ssize(executors); }
  /// Executor of a block, of those of all replicas.
  int executor_of(int block) const {
    return first + (executors.empty()
                        ? block - 1
                        : executors.at(static_cast<std::size_t>(block) - 1));
  }
};

/// The action that a block which runs free does first, of several that are
/// ready, after an update that is due.
enum class Priority : std::uint8_t {
  backward,  ///< a backward, then a lesson, then a forward
  arrival    ///< that whose messages came first (AMP)
};

/// A block's way of running free (FreeRunning).
struct FreePlan {
  /// 0: the block does its actions in the order of actions_of() instead. Above
  /// 0: the largest number of batches that may wait for their backward or
  /// lesson at once, those with Mark::in_flight or Mark::lesson; not messages
  /// as in in_flight() below.
  std::int64_t in_flight = 0;
  Priority priority = Priority::backward;
  /// Queues of activations at the boundaries below and above. A block above a
  /// buffer reads as many inputs as the run has turns.
  InboxTraits inbox_below = {};
  InboxTraits inbox_above = {};
  /// Whether the block may get fewer batches than the run has turns, because
  /// activations are dropped below; it forwards those that arrive.
  bool has_gaps = false;

  bool has_plain_inboxes() const {
    return inbox_below.is_plain() && inbox_above.is_plain();
  }
};

/// The gradients of a batch that a block takes, uses and sends.
struct GradientFlow {
  /// Whether backward waits for the gradient that block k+1 sends down.
  bool from_above = false;
  /// Parts of the gradient at h_k: the block's own, if any, then those from
  /// above in the order of arrival; a separate target comes last.
  std::vector<GradientPart> parts = {};
  /// Whether the last gradient that arrives is only a target.
  bool target_from_above = false;
  int leaving = 0;  ///< number of gradients sent down per batch
  /// With each backward the batch's input goes down too, from which the block
  /// below rebuilds its own.
  bool returns_input = false;

  /// The part that arrives by that way, `leaving`'s of the block above.
  const GradientPart& arriving(std::size_t way) const {
    const bool has_own = !parts.empty() && parts.front().own;
    return parts.at(way + (has_own ? 1 : 0));
  }
  /// Whether all parts except a target are used alike, so that their sum is
  /// enough.
  bool are_merged() const;
};

/// Tasks of the lower end of boundary k, above the block.
struct LowerPlan {
  /// Whether it learns from the gradient from above. When the backward doesn't
  /// wait for that, learning does. Turn t learns from batch t - learn_delay.
  bool learns = false;
  bool learns_by_steps = false;  ///< LowerTraits'
  std::int64_t learn_delay = 0;
  /// Names of a batch's attachments: kept for it, and sent up with h_k for ends
  /// further up.
  std::vector<std::string> keeps = {};
  std::vector<std::string> relays = {};
  /// Whether it may send up something else than h_k.
  bool publishes = false;
};

struct BlockPlan;
struct Grant;
/// The actions of a block for a grant, in order.
using BlockProgram = std::vector<Action>;

/// The default program. In turn t: the forwards of the turn's batches, each
/// with its backward or, with a delay, with the backward of turn t - delay;
/// BlockPlan::order says which comes first. In a drain: backwards alone.
BlockProgram turns_of(const BlockPlan& plan, const Grant& grant);

/// All that determines the schedule of a block, or of one of its replicas.
struct BlockPlan {
  int block = 1;
  int replica = 1;       ///< from 1
  int seats_before = 0;  ///< of earlier replicas
  /// Seats are numbered replica by replica, from 1, blocks from below.
  int seat() const { return seats_before + block; }
  ReplicaExchange exchange = {};
  /// Makes the forwards and backwards of a grant; the passes of program.h then
  /// add the actions that follow from these.
  BlockProgram (*program)(const BlockPlan& plan, const Grant& grant) = turns_of;
  /// Batches of a turn. A delay wants 1, since delays count whole turns.
  MicroBatches micro_batches = {};
  /// d_k: the sum of the delays of the boundaries k, k+1, ... up to the first
  /// cut, or an added one. Turn t applies batch t - delay.
  std::int64_t delay = 0;
  Order order = Order::forward_first;
  /// Weights that the backward sees when sees_old_weights().
  WeightsAtBackward weights = {};
  /// Whether the pipe is emptied at the end of each turn; if not, only at the
  /// end of a grant.
  bool flush = true;
  /// Whether a backward without delay builds its graph anew, from the input.
  bool recompute = false;
  /// Whether updates come between a batch's forward and its backward.
  bool sees_old_weights() const {
    return delay > 0 || weights.by_window || weights.of_entry;
  }
  /// Number of turns whose gradients one update applies.
  std::int64_t accumulate = 1;
  Segment segment = {};
  Placement placement = {};
  GradientFlow gradients = {};
  bool gradient_to_below() const { return gradients.leaving > 0; }
  /// Visits of the backward to a batch; empty: one, and so in all blocks.
  std::vector<BackwardVisit> visits = {};
  bool sweeps = false;  ///< whether they are those of add_sweeps()
  std::int64_t rounds() const {
    return visits.empty() ? 1 : std::ssize(visits);
  }
  LowerPlan lower = {};
  /// Task of the upper end of the boundary below.
  UpperEnd upper = UpperEnd::plain;
  bool answers() const { return upper == UpperEnd::answers; }
  bool forwards_data() const { return upper == UpperEnd::from_data; }
  FreePlan free = {};
  /// Number of batches by which the applied one is older than the turn's own.
  std::int64_t staleness_of(const Action& action) const {
    return action.turn - micro_batches.turn_of(action.batch);
  }
};

/// Where all blocks wait for each other. No method needs a barrier, but
/// published codes have one, which determines their speed. Changes no result.
enum class Barrier : std::uint8_t {
  none,
  turn,            ///< after every turn
  play_and_replay  ///< also inside a turn, between forward and replay
};

/// All that determines the schedules of one phase of a run.
struct RunPlan {
  /// By number of the seat: index k-1 for block k; where blocks have replicas,
  /// those of replica 1 first.
  std::vector<BlockPlan> blocks;
  int replicas = 1;  ///< of every block, or of that which has the most
  /// Whether blocks have different numbers of replicas (MicroBatches::dealt).
  /// All have a replica 1.
  bool is_uneven() const {
    return !blocks.empty() && blocks.front().micro_batches.dealt > 1;
  }
  /// Blocks of the network: K.
  int depth() const {
    if (!is_uneven()) return static_cast<int>(blocks.size()) / replicas;
    const auto second =
        std::find_if(blocks.begin(), blocks.end(),
                     [](const BlockPlan& each) { return each.replica > 1; });
    return static_cast<int>(second - blocks.begin());
  }
  /// clip.scope = "model": an update waits for the whole model's norm.
  bool model_norm = false;
  Barrier barrier = Barrier::none;
};

/// The plans of a run, one per phase of its timetable; between two phases the
/// pipe is drained.
using Plans = std::vector<RunPlan>;

/// Combines the traits of the K-1 boundaries, bottom first. added: where
/// boundaries have no delay of their own. Throws UserError when they can't be
/// combined.
RunPlan make_run_plan(const std::vector<Traits>& boundaries, bool model_norm,
                      std::int64_t accumulate = 1,
                      const MicroBatches& micro_batches = {},
                      const AddedDelay& added = {});

/// The barriers that the published codes of the plan's methods have in every
/// iteration: one, and for features replay a second one before the replay.
Barrier barrier_around_iterations(const RunPlan& plan);

/// A turn, or one of the two parts into which a barrier inside the turn divides
/// it; `play` ends with the forward.
enum class TurnPart : std::uint8_t { whole, play, rest };

/// The part of its turn, play or rest, that a training action belongs to.
TurnPart part_of(const BlockPlan& plan, const Action& action);

/// An order of the coordinator to every worker: run the turns [first_turn,
/// end_turn), then do the tasks set below, in the order of the members.
struct Grant {
  std::int64_t first_turn = 0;
  std::int64_t end_turn = 0;
  std::int64_t phase = 0;  ///< of the timetable
  /// The turn with which the pipe began, empty: batches of earlier turns were
  /// applied in a drain.
  std::int64_t first_batch = 0;
  bool drain = false;  ///< apply the batches still in flight
  std::int64_t evaluation_batches = 0;
  bool checkpoint = false;
  bool finish = false;  ///< nothing comes after this
  TurnPart part = TurnPart::whole;
  /// The replica joins the run, which had begun without it: the first of its
  /// grants begins with what the centre gives it.
  bool joins = false;

  bool operator==(const Grant&) const = default;
};

/// The lockstep schedule of a block: its actions for the grant, in order. Pure.
std::vector<Action> actions_of(const BlockPlan& plan, const Grant& grant);

/// Actions of a grant by the plan of its phase.
std::vector<Action> actions_of(const Plans& plans, int seat,
                               const Grant& grant);

/// A message that an action waits for or sends, between two seats.
struct Transfer {
  MessageKind kind = MessageKind::activation;
  int from = 0;
  int to = 0;
  std::int64_t batch = 0;
  std::int64_t round = 0;

  /// Whether the message goes from a block to the one above it. Norms go both
  /// ways, within a replica.
  bool goes_up() const {
    return kind == MessageKind::norm ? from < to
                                     : kind != MessageKind::gradient;
  }
  int lower() const { return goes_up() ? from : to; }
  int upper() const { return goes_up() ? to : from; }

  bool operator==(const Transfer&) const = default;
};

/// Number of turns after its own turn for which the block keeps a batch: until
/// its backward, or until the boundary has learned from it.
std::int64_t turns_in_flight(const BlockPlan& plan);

/// Number of turns after a batch's forward in block k until block k takes the
/// gradient that block k+1 sends for it; nothing when none is sent.
std::optional<std::int64_t> gradient_taken_after(const BlockPlan& plan);

/// The messages that an action waits for, and those that it sends.
std::vector<Transfer> needs_of(const RunPlan& plan, int seat,
                               const Action& action);
std::vector<Transfer> yields_of(const RunPlan& plan, int seat,
                                const Action& action);

/// The gradient messages that are sent and not yet received when every block
/// has done all turns before `turn`, in a pipe that began with `first_batch`:
/// boundary by boundary, in the order of sending. Not the batches that
/// Mark::in_flight marks or FreePlan::in_flight limits.
std::vector<Transfer> in_flight(const RunPlan& plan, std::int64_t turn,
                                std::int64_t first_batch);

}  // namespace sluice
