#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/blocks/block.h"
#include "lib/blocks/layer.h"
#include "lib/blocks/source.h"
#include "lib/boundaries/head.h"
#include "lib/metrics/likeness.h"
#include "lib/schedules/traits.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/optimizer.h"

namespace sluice {

/// All that the lower end of a boundary gets to see of the batch whose gradient
/// is being applied, or that it learns from.
struct BatchContext {
  std::int64_t turn = 0;
  std::int64_t batch = 0;
  /// h_k as leaves that ask for gradients: no graph leaves the block.
  const Tensors& features;
  const at::Tensor& labels;
  /// The gradient at h_k that block k+1 sent for this batch; empty when none is
  /// taken, at the last block, and where a reach keeps the losses apart: then
  /// only the end's own signal is asked for.
  const Tensors& from_above;
  Pass pass = {};
  /// What of traits().attachments came up with the batch.
  Attachments attachments = {};
  /// What block k+1 sent for synthesizers to learn from; empty unless that is
  /// another gradient than `from_above`.
  Tensors target_above = {};
  /// What the upper end answered beside gradients (Upper::answer); in learn().
  Tensors answer = {};
  /// The batch's share of its turn's samples, by which an end multiplies a loss
  /// of its own; 1 unless turns are cut into several batches.
  double share = 1;
};

/// The loss times the batch's share.
at::Tensor by_share(const at::Tensor& loss, const BatchContext& context);

/// A lower end's answer.
struct Signal {
  /// The gradient at each of the features.
  Tensors gradients;
  /// The gradient of each of parameters(), in their order.
  Tensors parameter_gradients;
  /// For the metrics; undefined when the end has no loss of its own.
  at::Tensor loss;
  at::Tensor logits;
  Figures figures = {};  ///< more for the metrics
  /// What the synthesizers below learn from in place of `gradients`; empty:
  /// passed(target_above).
  Tensors targets = {};
};

/// How an end that trains has learned from a batch.
struct Lesson {
  Tensors gradients;  ///< of learners(), in their order
  at::Tensor loss;    ///< for the metrics
  std::string_view loss_name = "synthesizer_loss";  ///< there
};

/// What both ends of a boundary may train, hold and save.
class BoundaryEnd {
 public:
  virtual ~BoundaryEnd() = default;
  /// What learn() trains ("synthesizers.3.last.weight"), stepped at once by an
  /// optimizer of its own.
  virtual NamedTensors learners() const { return {}; }
  /// That optimizer's options; nullptr: those of the block's.
  virtual const OptimizerOptions* learners_optimizer() const { return nullptr; }
  /// State that is saved but not trained (BatchNorm statistics of heads).
  virtual NamedTensors buffers() const { return {}; }
};

/// The end of boundary k at block k: where the gradient at the output of the
/// block comes from. Touches no channel, clock or file; holds no weights but
/// its own sources' (heads, synthesizers).
class Lower : public BoundaryEnd {
 public:
  /// What schedules know of the boundary: one answer for both ends.
  virtual Traits traits() const = 0;
  /// Called once for each batch that the block applies.
  virtual Signal signal(const BatchContext& context) = 0;
  /// What becomes of a gradient from above, where a reach keeps the gradients
  /// of several losses apart, or lam_target the synthesizers' target.
  virtual Tensors passed(const Tensors& from_above) { return from_above; }
  /// Called once for each batch after its signal(), with what has arrived from
  /// above for it; only with traits().learns.
  virtual Lesson learn(const BatchContext& /*context*/) { return {}; }
  /// What the end trains ("heads.3.classifier.weight"); the block's optimizer
  /// steps them together with the block's own weights.
  virtual NamedTensors parameters() const { return {}; }
  /// What begins as a copy of weights of the model, by their names in it
  /// ("layers.3.weight"): set when those are loaded before training.
  virtual NamedTensors copied() const { return {}; }
  /// What was drawn once for features of these sizes and is neither trained nor
  /// saved, for a user who wants to repeat a run elsewhere ("projections.3.0").
  virtual NamedTensors constants(const Tensors& /*features*/,
                                 const at::Tensor& /*labels*/) {
    return {};
  }
};

/// What a boundary carries upwards for a batch.
struct Payload {
  Tensors features;   ///< h_k, on the device of the block that takes it
  at::Tensor labels;  ///< on the host, as they go on to the block above
  Attachments attachments = {};  ///< on the host too
};

/// What the upper end of a boundary gets to see of a training batch.
struct InputContext {
  std::int64_t turn = 0;
  std::int64_t batch = 0;
  Pass pass = {};
  c10::Device device = c10::kCPU;  ///< of the block
  /// The batch as block 1 gets it, labels on the host; only with
  /// traits().upper == UpperEnd::from_data.
  std::function<Payload()> data = {};
};

/// The end of boundary k at block k+1: what that block takes as its input, and
/// what it sends down. This one takes the next payload and sends the gradients
/// at its input. Touches no channel, clock or file.
class Upper : public BoundaryEnd {
 public:
  /// What the block forwards of a training batch; `next` gives what comes from
  /// below.
  virtual Payload inputs(const InputContext& context,
                         const std::function<Payload()>& next);
  /// What goes down beside the gradients when the block has gone backward
  /// through a batch, not attached to anything that an update writes; only with
  /// traits().upper == UpperEnd::answers.
  virtual Tensors answer(const Block& /*block*/) { return {}; }
  /// Called once for each batch after its inputs(), with what has come from
  /// below for it; only with traits().upper == UpperEnd::from_data.
  virtual Lesson learn(const InputContext& /*context*/,
                       const Payload& /*from_below*/) {
    return {};
  }
  /// Bytes that it keeps of batches between the two.
  virtual std::int64_t kept_bytes() const { return 0; }
};

using MakeLower =
    std::function<std::unique_ptr<Lower>(const BoundarySite& site)>;
using MakeUpper =
    std::function<std::unique_ptr<Upper>(const BoundarySite& site)>;

std::unique_ptr<Upper> make_plain_upper(const BoundarySite& site);

/// Makes the two ends of a boundary, which are objects of two blocks. `site` is
/// that of the boundary for both.
struct MakeBoundary {
  MakeBoundary() = default;
  /// For policies without an upper end of their own, a lambda is enough.
  template <std::invocable<const BoundarySite&> Make>
  MakeBoundary(Make make_lower) : lower(std::move(make_lower)) {}
  MakeBoundary(MakeLower make_lower, MakeUpper make_upper)
      : lower(std::move(make_lower)), upper(std::move(make_upper)) {}

  MakeLower lower = {};
  MakeUpper upper = make_plain_upper;
};

struct PlugIns;
/// Reads the policy's options, eagerly. `plug_ins` are what it may be made of.
using ConfigurePolicy = MakeBoundary (*)(Fields& options,
                                         const PlugIns& plug_ins);

/// What `sluice list methods NAME` says of a method, beside what it computes
/// from the traits. Plain text, a paragraph each.
struct MethodPage {
  std::string_view source = {};      ///< who published it, and where
  std::string_view kept = {};        ///< between a batch's forward and backward
  std::string_view batch_norm = {};  ///< which pass moves its statistics
  std::string_view randomness = {};  ///< which masks the backward sees
  std::string_view staleness = {};   ///< in batches and in updates
  /// Options of the boundaries in the page's example beside `policy`, as the
  /// inside of an inline TOML table; empty: the defaults.
  std::string_view example = {};
};

/// How a method is made, and how it is described.
struct Method {
  ConfigurePolicy configure = nullptr;
  MethodPage (*page)() =
      nullptr;  ///< nullptr: a user's own method, without one
};
using PolicyRow = Row<Method>;

/// A new method is one source file and one row.
std::span<const PolicyRow> policies();

}  // namespace sluice
