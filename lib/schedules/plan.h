#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/channel.h"
#include "lib/base/message.h"
#include "lib/schedules/action.h"
#include "lib/schedules/micro_batches.h"
#include "lib/schedules/traits.h"

namespace sluice {

/// A part of the gradient at h_k: that of all losses which share their way
/// down.
struct GradientPart {
  bool own = false;      ///< the policy's own signal; else from above
  bool applied = true;   ///< whether it moves the block's weights
  int leaving = kStays;  ///< which of the gradients sent down it adds to
  /// What the synthesizers below learn from, where that is another gradient.
  bool target = false;

  static constexpr int kStays = -1;
  bool operator==(const GradientPart&) const = default;
};

/// Where a block stands in its segment, the blocks between two cuts: how many
/// of them are below it, and how many above, the nearest of which sends it the
/// gradient that its backward waits for.
struct Segment {
  int below = 0;
  int above = 0;
  int blocks() const { return below + 1 + above; }
};

/// Where the blocks have their seats: executor e of E, from 0, has the blocks
/// e+1, e+1+E, ... of the network.
struct Seating {
  int executors = 0;  ///< 0: one for each block
  int chunks = 1;     ///< blocks of an executor

  int executor_of(int block) const {
    return executors == 0 ? block - 1 : (block - 1) % executors;
  }
};

/// An action of one of an executor's blocks.
struct SeatAction {
  int block = 1;
  Action action = {};
};

struct BlockPlan;
struct Grant;
/// What a block does of a grant, in its order.
using BlockProgram = std::vector<Action>;

/// In turn t the forwards of its batches, each followed by its backward, or
/// with a delay by that of turn t - delay, in the order of the plan; in a drain
/// backwards alone.
BlockProgram turns_of(const BlockPlan& plan, const Grant& grant);

/// What a block's schedule is made from.
struct BlockPlan {
  int block = 1;
  /// Makes the forwards and backwards of a grant; what follows from them is put
  /// in later (program.h).
  BlockProgram (*program)(const BlockPlan& plan, const Grant& grant) = turns_of;
  /// More than one only without delays, which count turns.
  MicroBatches micro_batches = {};
  /// d_k: the sum of the delays of the boundaries k, k+1, ... up to the first
  /// cut. Turn t applies batch t - delay.
  std::int64_t delay = 0;
  Order order = Order::forward_first;
  /// What its backward sees when delay > 0.
  WeightsAtBackward weights = {};
  std::optional<StatisticsAt> statistics = {};
  /// Whether the pipe is empty at the end of a turn, else only at that of a
  /// grant.
  bool flush = true;
  /// Whether a backward without delay builds its graph anew, from the input.
  bool recompute = false;
  /// Whether updates come between a batch's forward and its backward.
  bool sees_old_weights() const { return delay > 0 || weights.by_window; }
  /// Turns whose gradients are accumulated for an update.
  std::int64_t accumulate = 1;
  /// Whether backward waits for the gradient that block k+1 sends down.
  bool gradient_from_above = false;
  Segment segment = {};
  Seating seating = {};
  /// Whether a source learns from that gradient. When backward doesn't wait for
  /// it, learning does. Turn t learns from batch t - learn_delay.
  bool learns = false;
  std::int64_t learn_delay = 0;
  /// The gradient at h_k: the own part, if any, then those from above in the
  /// order in which they arrive; the target, if it is apart, comes last.
  std::vector<GradientPart> parts = {};
  /// Whether the last gradient that arrives is but a target.
  bool target_from_above = false;
  int leaving = 0;  ///< gradients sent down for a batch
  bool gradient_to_below() const { return leaving > 0; }
  /// Whether all parts but a target go the same way, so that their sum is all
  /// one needs.
  bool is_merged() const;
  /// Attachments of a batch, by name: those that are kept for the lower end
  /// above the block, and those that go up with h_k for ends further up.
  std::vector<std::string> keeps = {};
  std::vector<std::string> relays = {};
  /// What the upper end of the boundary below does.
  UpperEnd upper = UpperEnd::plain;
  bool answers() const { return upper == UpperEnd::answers; }
  bool forwards_data() const { return upper == UpperEnd::from_data; }
  /// 0: the block does its actions in the order of actions_of(). Else it runs
  /// free (FreeRunning), and this limits how many batches may wait for their
  /// backward or lesson at once: a number of batches with Mark::in_flight or
  /// Mark::lesson, not messages as in in_flight() below.
  std::int64_t in_flight = 0;
  /// How activations wait at the boundaries below and above a block that runs
  /// free. From a buffer below it takes as many inputs as the run has turns.
  InboxTraits inbox_below = {};
  InboxTraits inbox_above = {};
  /// Batches that came between the one that is applied and the turn's own.
  std::int64_t staleness_of(const Action& action) const {
    return action.turn - micro_batches.turn_of(action.batch);
  }
  /// Whether its batches may be fewer than the turns of the run, because
  /// activations are dropped below: it forwards those that come.
  bool has_gaps = false;
};

/// Where all blocks wait for each other. No method needs it; published codes
/// have it, and their speeds follow from it. Changes no number.
enum class Barrier : std::uint8_t {
  none,
  turn,            ///< after every turn
  play_and_replay  ///< also inside a turn, between forward and replay
};

/// What every schedule of a phase of a run is made from.
struct RunPlan {
  std::vector<BlockPlan> blocks;  ///< index k-1
  /// For executors with several blocks: makes the forwards and backwards of a
  /// grant in the executor's order; BlockPlan::program makes those of one block
  /// in the same order.
  std::vector<SeatAction> (*order)(const RunPlan& plan, int executor,
                                   const Grant& grant) = nullptr;
  /// clip.scope = "model": an update waits for the whole model's norm.
  bool model_norm = false;
  Barrier barrier = Barrier::none;
};

/// The plans of a whole run, by phase: a timetable begins the next one when the
/// pipe has been drained.
using Plans = std::vector<RunPlan>;

/// boundaries: traits of the K-1 boundaries, bottom first. Throws UserError
/// when they don't go together.
RunPlan make_run_plan(const std::vector<Traits>& boundaries, bool model_norm,
                      std::int64_t accumulate = 1,
                      const MicroBatches& micro_batches = {});

/// The barrier around every iteration, as the published codes of the plan's
/// methods have it: features replay has a second one before the replay.
Barrier barrier_around_iterations(const RunPlan& plan);

/// What of its turns a block does; a barrier inside a turn parts it. `play`
/// ends with the forward.
enum class TurnPart : std::uint8_t { whole, play, rest };

/// The part of its turn, play or rest, that a training action belongs to.
TurnPart part_of(const BlockPlan& plan, const Action& action);

/// The coordinator's word to every worker: run the turns [first_turn,
/// end_turn), then do what it decided, in the order of the members.
struct Grant {
  std::int64_t first_turn = 0;
  std::int64_t end_turn = 0;
  std::int64_t phase = 0;  ///< of the timetable
  /// The turn that the pipe began with: batches of those before it are none of
  /// its any more, for it was drained there.
  std::int64_t first_batch = 0;
  bool drain = false;  ///< apply the batches still in flight
  std::int64_t evaluation_batches = 0;
  bool checkpoint = false;
  bool finish = false;  ///< nothing comes after this
  TurnPart part = TurnPart::whole;

  bool operator==(const Grant&) const = default;
};

/// The lockstep schedule of a block: a pure function.
std::vector<Action> actions_of(const BlockPlan& plan, const Grant& grant);

/// The same, of the grant's phase.
std::vector<Action> actions_of(const Plans& plans, int block,
                               const Grant& grant);

/// A message that an action waits for or sends.
struct Transfer {
  MessageKind kind = MessageKind::activation;
  int from = 0;
  int to = 0;
  std::int64_t batch = 0;
  std::int64_t round = 0;

  bool operator==(const Transfer&) const = default;
};

/// For how many turns after its own a batch is kept at the block: until its
/// backward, or until it was learned from.
std::int64_t turns_in_flight(const BlockPlan& plan);

/// How many turns after its forward block k takes the gradient of a batch that
/// block k+1 sends down; nothing when it sends none.
std::optional<std::int64_t> gradient_taken_after(const BlockPlan& plan);

std::vector<Transfer> needs_of(const RunPlan& plan, int block,
                               const Action& action);
std::vector<Transfer> yields_of(const RunPlan& plan, int block,
                                const Action& action);

/// The gradients that have been sent and not yet taken when every block has
/// done the turns before `turn`, of a pipe that began with `first_batch`: per
/// boundary, in the order in which they were sent. Messages, not the batches
/// that Mark::in_flight marks or BlockPlan::in_flight limits.
std::vector<Transfer> in_flight(const RunPlan& plan, std::int64_t turn,
                                std::int64_t first_batch);

}  // namespace sluice
