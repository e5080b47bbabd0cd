#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/message.h"
#include "lib/policy.h"
#include "lib/schedules/action.h"

namespace sluice {

/// What a block's schedule is made from.
struct BlockPlan {
  int block = 1;
  /// d_k: the sum of the delays of the boundaries k, k+1, ... up to the first
  /// cut. Turn t applies batch t - delay.
  std::int64_t delay = 0;
  Order order = Order::forward_first;
  /// What its backward sees when delay > 0.
  WeightsAtBackward weights = WeightsAtBackward::stash;
  StatisticsAt statistics = StatisticsAt::forward;
  /// Batches whose gradients are accumulated for an update.
  std::int64_t accumulate = 1;
  /// Whether backward waits for the gradient that block k+1 sends down.
  bool gradient_from_above = false;
  /// Whether a source learns from that gradient. When backward doesn't wait for
  /// it, learning does. Turn t learns from batch t - learn_delay.
  bool learns = false;
  std::int64_t learn_delay = 0;
  bool gradient_to_below = false;  ///< boundary k-1 wants ours
  /// Whether the batch's un-normalised input is kept for the policy above the
  /// block, and whether it goes up with h_k, for the one of a block above.
  bool needs_raw_input = false;
  bool raw_input_to_above = false;
  /// With each backward the weights of the first layer go down, and no
  /// gradient.
  bool first_layer_to_below = false;
};

/// What every schedule of a run is made from.
struct RunPlan {
  std::vector<BlockPlan> blocks;  ///< index k-1
  /// clip.scope = "model": an update waits for the whole model's norm.
  bool model_norm = false;
};

/// boundaries: traits of the K-1 boundaries, bottom first. Throws UserError
/// when they don't go together.
RunPlan make_run_plan(const std::vector<Traits>& boundaries, bool model_norm,
                      std::int64_t accumulate = 1);

/// The coordinator's word to every worker: run the turns [first_turn,
/// end_turn), then do what it decided, in the order of the members.
struct Grant {
  std::int64_t first_turn = 0;
  std::int64_t end_turn = 0;
  /// Batches before it are none of the pipe's any more: it was drained there.
  std::int64_t first_batch = 0;
  bool drain = false;  ///< apply the batches still in flight
  std::int64_t evaluation_batches = 0;
  bool checkpoint = false;
  bool finish = false;  ///< nothing comes after this

  bool operator==(const Grant&) const = default;
};

/// The lockstep schedule of a block: a pure function.
std::vector<Action> actions_of(const BlockPlan& plan, const Grant& grant);

/// A message that an action waits for or sends.
struct Transfer {
  MessageKind kind = MessageKind::activation;
  int from = 0;
  int to = 0;
  std::int64_t batch = 0;

  bool operator==(const Transfer&) const = default;
};

/// For how many turns after its own a batch keeps the block busy.
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
/// boundary, in the order in which they were sent.
std::vector<Transfer> in_flight(const RunPlan& plan, std::int64_t turn,
                                std::int64_t first_batch);

}  // namespace sluice
