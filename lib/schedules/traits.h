#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "lib/base/channel.h"
#include "lib/schedules/replay_buffer.h"

namespace sluice {

/// Which weights the backward of a batch sees when updates came between.
enum class WeightsAtBackward : std::uint8_t {
  stash,
  recompute,
  mixed,
  current
};

/// Which pass of a batch that is forwarded twice moves BatchNorm's statistics.
enum class StatisticsAt : std::uint8_t { forward, replay, both };

/// What a turn t does first, for blocks with a delay: A is forward(t),
/// backward(t - d), update; B is backward(t - d), update, forward(t).
enum class Order : std::uint8_t { forward_first, backward_first };

/// Which of the losses that reach a block move its weights: all of them, or
/// that of the head furthest above.
enum class ReachRule : std::uint8_t { sum, furthest };

inline constexpr std::int64_t kUnbounded =
    std::numeric_limits<std::int64_t>::max();

/// What a head must be given beside features and labels. A cut is a cut for
/// gradients, not for everything.
struct Needs {
  bool raw_input = false;  ///< the model's input, before it was normalised
  /// The weights of block k+1's first layer when it goes backward through the
  /// batch: they come down in place of a gradient, to follow().
  bool first_layer_above = false;
};

/// The static answers of a policy: all that schedules are made from.
struct Traits {
  /// Turns by which this boundary delays the gradient from above.
  std::int64_t delay = 0;
  /// No source of weight != 0 comes from above: delays above don't add up.
  bool cut = false;
  /// Whether block k+1 sends its gradient down (a cut may still want it, as a
  /// synthesizer's target).
  bool from_above = true;
  /// Whether the policy adds a signal of its own to what comes from above; a
  /// cut always does.
  bool own = false;
  /// How many blocks further up the head of a loss may stand whose gradient
  /// passes; no matter for a cut.
  std::int64_t reach = kUnbounded;
  ReachRule rule = ReachRule::sum;
  WeightsAtBackward weights = WeightsAtBackward::stash;
  /// Must be said where the model has BatchNorm and the input is replayed.
  std::optional<StatisticsAt> statistics = {};
  Order order = Order::forward_first;
  /// Whether learn() is called, with the gradient from above as a target, and
  /// how many turns after the batch's backward.
  bool learns = false;
  std::int64_t target_delay = 0;
  /// What signal() must be given beside features and labels.
  Needs needs = {};
  /// The weight of what comes from above in the target that the synthesizers
  /// below learn from (lambda of the target); nothing: they learn from what the
  /// signal makes of it.
  std::optional<double> lam_target = {};
  /// Whether block k+1, when it trains, forwards what an input model predicts
  /// in place of h_k, which the model then learns from (full unlock).
  bool unlocks = false;
  /// The block above takes its inputs from such a buffer. A cut from which
  /// nothing comes down, in a free-running schedule.
  std::optional<ReplayOptions> replay = {};
  /// What becomes of activations when the block above is slow. Anything but
  /// `block` goes where a buffer goes.
  SlowConsumer slow_consumer = SlowConsumer::block;
};

}  // namespace sluice
