#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/blocks/layer.h"
#include "lib/boundaries/head.h"
#include "lib/metrics/likeness.h"
#include "lib/schedules/traits.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/optimizer.h"

namespace sluice {

struct Unlock;

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
