#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/schedules/plan/inbox.h"

namespace sluice {

/// The pass that moves BatchNorm's statistics, of a batch that is forwarded
/// twice.
enum class StatisticsPass : std::uint8_t { forward, replay, both };

/// Which weights the backward of a batch sees when updates came between: what a
/// row of weight_views() is to schedules.
struct WeightsAtBackward {
  std::string_view view = "stash";  ///< the row's name
  /// The backward forwards the batch once more.
  bool forwards_again = false;
  /// The backward takes gradients at the weights that the block then has.
  bool of_today = false;
  /// A block keeps no input: the block above sends its own one down beside the
  /// gradient, and the backward rebuilds from that what it forwards again.
  /// False for a block with a layer that has no inverse, whatever the view.
  bool rebuilds = false;
  /// Whether the weights follow from the window that the batch is in, whenever
  /// the block forwards it: for pipelines, not for delays.
  bool by_window = false;
  /// Whether the weights are decided where the batch enters its segment: all
  /// blocks there use the version with which the lowest one forwards it.
  bool of_entry = false;
  /// Weight, in the velocity of `extrapolate`, of a past change of the weights
  /// after as many updates as the gradient is late.
  double decay = 0.1;
  /// Must be said where the model has BatchNorm and the input is replayed.
  std::optional<StatisticsPass> statistics = {};

  bool replays() const { return forwards_again && of_today; }
  bool operator==(const WeightsAtBackward&) const = default;
};

/// What a turn t does first, for blocks with a delay: A is forward(t),
/// backward(t - d), update; B is backward(t - d), update, forward(t).
enum class Order : std::uint8_t { forward_first, backward_first };

/// Rule for the losses that reach a block and move its weights: all of them, or
/// that of the head furthest above.
enum class ReachRule : std::uint8_t { sum, furthest };

inline constexpr std::int64_t kUnbounded =
    std::numeric_limits<std::int64_t>::max();

/// Losses whose gradient passes a boundary; no matter for a cut.
struct Reach {
  /// How many blocks further up the head of such a loss may stand.
  std::int64_t blocks = kUnbounded;
  ReachRule rule = ReachRule::sum;
};

/// What the upper end of a boundary does at block k+1, as far as schedules are
/// concerned.
enum class UpperEnd : std::uint8_t {
  plain,  ///< takes what comes from below, and sends gradients down
  /// Unlock: a training forward takes what the end's input model predicts from
  /// the data, and waits for no block below. Only the forward: the input model
  /// learns from the activation from below in the same turn, and that lesson
  /// waits for it.
  from_data,
  /// With each backward something else goes down beside the gradients.
  answers
};

/// How often the auxiliary variables of a batch move before the weights do.
struct Sweeps {
  std::int64_t steps = 1;
  /// Whether all variables move at once; else they move from the top, so that
  /// each sees where the one above it has moved to.
  bool at_once = false;

  /// Whether a batch's backward is made of several visits for it.
  bool are_several() const { return steps > 1 || at_once; }
  bool operator==(const Sweeps&) const = default;
};

/// An attachment: the model's input, before it was normalised.
inline constexpr const char* kRawInput = "raw_input";
/// An attachment: the index of each sample in the training split, [N] int64.
inline constexpr const char* kSampleIds = "sample_ids";

/// What the lower end of a boundary does, as far as schedules are concerned.
struct LowerTraits {
  /// Whether it learns from what comes from above: from the gradient as its
  /// target, or from what the upper end answers; and how many turns after the
  /// batch's backward.
  bool learns = false;
  /// Whether all that it learns are steps by gradients (BoundaryEnd::learners()
  /// are what is stepped), as of a synthesizer: then replicas can sum them.
  bool learns_by_steps = false;
  std::int64_t target_delay = 0;
  /// The weight of what comes from above in the target that the synthesizers
  /// below learn from (lambda of the target); nothing: they learn from what the
  /// signal makes of it.
  std::optional<double> lam_target = {};
  /// Whether it may send something else up than h_k, from which no output can
  /// be rebuilt.
  bool publishes = false;
  Sweeps sweeps = {};
  /// What it is given beside features and labels: names of what block 1
  /// attaches to a batch, which all blocks between relay. A cut is a cut for
  /// gradients, not for everything.
  std::vector<std::string> attachments = {};
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
  Reach reach = {};
  WeightsAtBackward weights = {};
  Order order = Order::forward_first;
  LowerTraits lower = {};
  UpperEnd upper = UpperEnd::plain;
  /// How activations wait for the block above. Other than plain only at a cut
  /// from which nothing comes down, in a free-running schedule.
  InboxTraits inbox = {};

  bool learns_from_gradient() const {
    return lower.learns && upper != UpperEnd::answers;
  }
};

}  // namespace sluice
