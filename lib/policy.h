#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/channel.h"
#include "lib/base/config.h"
#include "lib/base/replay_buffer.h"
#include "lib/base/table.h"
#include "lib/head.h"
#include "lib/layer.h"
#include "lib/metrics/likeness.h"
#include "lib/optimizers/optimizer.h"
#include "lib/tensors.h"

namespace sluice {

struct Unlock;

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

/// All that a policy gets to see of the batch whose gradient is being applied,
/// or that it learns from.
struct Moment {
  std::int64_t turn = 0;
  std::int64_t batch = 0;
  /// h_k as leaves that ask for gradients: no graph leaves the block.
  const Tensors& features;
  const at::Tensor& labels;
  /// The gradient at h_k that block k+1 sent for this batch; empty when none is
  /// taken, at the last block, and where a reach keeps the losses apart: then
  /// only the policy's own signal is asked for.
  const Tensors& from_above;
  Pass pass = {};
  /// Of traits().needs; else undefined.
  at::Tensor raw_input = {};
  /// What block k+1 sent for synthesizers to learn from; empty unless that is
  /// another gradient than `from_above`.
  Tensors target_above = {};
};

/// A policy's answer.
struct Signal {
  /// The gradient at each of the features.
  Tensors gradients;
  /// The gradient of each of parameters(), in their order.
  Tensors parameter_gradients;
  /// For the metrics; undefined when the policy has no loss of its own.
  at::Tensor loss;
  at::Tensor logits;
  Figures figures = {};  ///< more for the metrics
  /// What the synthesizers below learn from in place of `gradients`; empty:
  /// passed(target_above).
  Tensors targets = {};
};

/// How a source that trains has learned from a batch.
struct Lesson {
  Tensors gradients;  ///< of learners(), in their order
  at::Tensor loss;    ///< for the metrics
};

/// Where the gradient at the output of a block comes from. Touches no channel,
/// clock or file; holds no weights but its own sources' (heads, synthesizers).
class Policy {
 public:
  virtual ~Policy() = default;
  virtual Traits traits() const = 0;
  /// Called once for each batch that the block applies.
  virtual Signal signal(const Moment& moment) = 0;
  /// What becomes of a gradient from above, where a reach keeps the gradients
  /// of several losses apart, or lam_target the synthesizers' target.
  virtual Tensors passed(const Tensors& from_above) { return from_above; }
  /// Called once for each batch after its signal(), with what has arrived from
  /// above for it; only with traits().learns.
  virtual Lesson learn(const Moment& /*moment*/) { return {}; }
  /// What the policy trains ("heads.3.classifier.weight"); the block's
  /// optimizer steps them together with the block's own weights.
  virtual NamedTensors parameters() const { return {}; }
  /// What learn() trains ("synthesizers.3.last.weight"), stepped at once by an
  /// optimizer of its own.
  virtual NamedTensors learners() const { return {}; }
  /// That optimizer's options; nullptr: those of the block's.
  virtual const OptimizerOptions* learners_optimizer() const { return nullptr; }
  /// With traits().unlocks: for the block above, made anew at each call.
  virtual std::shared_ptr<Unlock> unlock() const { return nullptr; }
  /// State that is saved but not trained (BatchNorm statistics of heads).
  virtual NamedTensors buffers() const { return {}; }
  /// What begins as a copy of weights of the model, by their names in it
  /// ("layers.3.weight"): set when those are loaded before training.
  virtual NamedTensors copied() const { return {}; }
  /// What was drawn once for features of these sizes and is neither trained nor
  /// saved, for who wants to repeat a run elsewhere ("projections.3.0").
  virtual NamedTensors constants(const Tensors& /*features*/,
                                 const at::Tensor& /*labels*/) {
    return {};
  }
};

using MakePolicy = std::function<std::unique_ptr<Policy>(const Site& site)>;
struct PlugIns;
/// Reads the policy's options, eagerly. `plug_ins` are what it may be made of.
using ConfigurePolicy = MakePolicy (*)(Fields& options,
                                       const PlugIns& plug_ins);

/// What `sluice list methods NAME` says of a method, beside what it computes
/// from the traits. Plain text, a paragraph each.
struct MethodPage {
  std::string_view source = {};      ///< who published it, and where
  std::string_view kept = {};        ///< between a batch's forward and backward
  std::string_view batch_norm = {};  ///< which pass moves its statistics
  std::string_view randomness = {};  ///< which masks the backward sees
  std::string_view staleness = {};   ///< in batches and in updates
  /// Of the boundaries in the page's example beside `policy`, as the inside of
  /// an inline TOML table; empty: the defaults.
  std::string_view example = {};
};

/// How a method is made, and how it is described.
struct Method {
  ConfigurePolicy configure = nullptr;
  MethodPage (*page)() = nullptr;  ///< nullptr: somebody's own, without one
};
using PolicyRow = Row<Method>;

/// A new method is one source file and one row.
std::span<const PolicyRow> policies();

}  // namespace sluice
