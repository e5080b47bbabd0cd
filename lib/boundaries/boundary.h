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
#include "lib/schedules/plan/traits.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/optimizer.h"

namespace sluice {

/// Which visit of a batch asks a lower end, where the backward is made of
/// several (LowerTraits::sweeps).
struct Visit {
  std::int64_t round = 0;
  bool goes_back = true;  ///< whether the signal is taken back
  bool is_last = true;    ///< and so moves the weights
};

/// The batch whose gradient is being applied, or that is learned from, as the
/// lower end of a boundary sees it.
struct BatchContext {
  std::int64_t turn = 0;
  std::int64_t batch = 0;
  /// h_k, as leaves with requires_grad: no graph leaves the block.
  const Tensors& features;
  const at::Tensor& labels;
  /// The gradient at h_k that block k+1 sent for this batch; empty when none is
  /// taken, at the last block, and where a reach keeps the gradients of several
  /// losses separate: then signal() returns only the end's own part.
  const Tensors& from_above;
  Pass pass = {};
  /// The tensors of traits().lower.attachments that came up with the batch, on
  /// the block's device.
  Attachments attachments = {};
  /// The gradient that block k+1 sent as the synthesizers' target; empty unless
  /// it differs from `from_above`.
  Tensors target_above = {};
  /// Tensors that the upper end sent beside gradients (Upper::answer); only in
  /// learn().
  Tensors answer = {};
  /// The batch's share of its turn's samples, by which an end multiplies a loss
  /// of its own; 1 unless turns are cut into several batches.
  double share = 1;
  Visit visit = {};
};

/// A loss times the batch's share.
at::Tensor by_share(const at::Tensor& loss, const BatchContext& context);

/// Result of a lower end for a batch.
struct Signal {
  /// Gradients at BatchContext::features, in their order.
  Tensors gradients;
  /// Gradients of parameters(), in their order.
  Tensors parameter_gradients;
  /// Loss and logits of the end, for the metrics; undefined when it has none.
  at::Tensor loss;
  at::Tensor logits;
  Figures figures = {};  ///< further figures for the metrics
  /// Gradients from which the synthesizers below learn instead of `gradients`;
  /// empty: passed(target_above).
  Tensors targets = {};
  /// What goes up in place of BatchContext::features, where the visit says so;
  /// without graph.
  Tensors published = {};
};

/// Result of training an end on a batch.
struct Lesson {
  Tensors gradients;  ///< of learners(), in their order
  at::Tensor loss;    ///< for the metrics
  std::string_view loss_name = "synthesizer_loss";  ///< in the metrics
};

/// State that either end of a boundary may train, hold and save.
class BoundaryEnd {
 public:
  virtual ~BoundaryEnd() = default;
  /// Parameters that learn() trains ("synthesizers.3.last.weight"); an
  /// optimizer of their own steps them right after it.
  virtual NamedTensors learners() const { return {}; }
  /// Options of that optimizer; nullptr: those of the block's optimizer.
  virtual const OptimizerOptions* learners_optimizer() const { return nullptr; }
  /// The learners have been given other values, in place and behind the back of
  /// autograd: graphs that were made with the old ones are of no use.
  virtual void learners_replaced() {}
  /// State that is saved but not trained (BatchNorm statistics of heads).
  virtual NamedTensors buffers() const { return {}; }
};

/// The end of boundary k at block k, which gives the gradient at the block's
/// output. Touches no channel, clock or file; holds no weights except those of
/// its heads and synthesizers.
class Lower : public BoundaryEnd {
 public:
  /// Properties of the boundary from which schedules are made, for both ends.
  virtual Traits traits() const = 0;
  /// What goes up of a training batch: h_k, which has a graph, or something in
  /// its place, only with traits().lower.publishes. Called once in each
  /// forward. `attachments` are those of BatchContext.
  virtual Tensors publish(std::int64_t /*batch*/, const Tensors& features,
                          const Attachments& /*attachments*/) {
    return features;
  }
  /// What goes up of a batch that is evaluated: h_k, or something in its place,
  /// only with MakeBoundary::changes_evaluations.
  virtual Tensors evaluated(const Tensors& features) { return features; }
  /// The tensors of buffers() that evaluated() reads.
  virtual NamedTensors evaluation_state() const { return {}; }
  /// Called once for each batch that the block applies, or for each visit of
  /// it: then with the features of the input that came last.
  virtual Signal signal(const BatchContext& context) = 0;
  /// Whether signal(), where nothing comes from above, is made by operations of
  /// the device alone from features, labels, attachments and tensors of the
  /// end, and has no figures, targets or published tensors: then it may be
  /// captured in a graph.
  virtual bool depends_on_batch_alone() const { return false; }
  /// The block's gradient for one gradient from above, where several come
  /// separately: of several losses with a reach, or the synthesizers' target
  /// with lam_target.
  virtual Tensors passed(const Tensors& from_above) { return from_above; }
  /// Called once for each batch after its signal(), with what has arrived from
  /// above for it; only with traits().lower.learns.
  virtual Lesson learn(const BatchContext& /*context*/) { return {}; }
  /// Parameters of the end ("heads.3.classifier.weight"); the block's optimizer
  /// steps them together with the block's own weights.
  virtual NamedTensors parameters() const { return {}; }
  /// Tensors of the end that start as copies of the model's weights, under the
  /// names of those ("layers.3.weight"): set when initial weights are loaded.
  virtual NamedTensors copied() const { return {}; }
  /// Tensors that were drawn once for features of these sizes and are neither
  /// trained nor saved ("projections.3.0"): a user needs them to repeat a run
  /// in another program.
  virtual NamedTensors constants(const Tensors& /*features*/,
                                 const at::Tensor& /*labels*/) {
    return {};
  }
};

/// The content of a boundary's upward message for a batch.
struct Payload {
  Tensors features;   ///< h_k, on the device of the block that takes it
  at::Tensor labels;  ///< on the host, as they go on to the block above
  Attachments attachments = {};  ///< on the host too
  std::int64_t version = 0;      ///< of the weights that block k forwarded with
};

/// A training batch, as the upper end of a boundary sees it.
struct InputContext {
  std::int64_t turn = 0;
  std::int64_t batch = 0;
  Pass pass = {};
  c10::Device device = c10::kCPU;  ///< of the block
  /// The batch as block 1 gets it, labels on the host; only with
  /// traits().upper == UpperEnd::from_data.
  std::function<Payload()> data = {};
};

/// The end of boundary k at block k+1, which determines that block's input and
/// what it sends down. This class is the plain one: the input is the next
/// payload, and the gradients at it are sent down. Touches no channel, clock or
/// file.
class Upper : public BoundaryEnd {
 public:
  /// The input that the block forwards for a training batch; `next` waits for
  /// the payload from below.
  virtual Payload inputs(const InputContext& context,
                         const std::function<Payload()>& next);
  /// Tensors sent down beside the gradients after the block's backward of a
  /// batch; they must not share memory with weights. Only with traits().upper
  /// == UpperEnd::answers.
  virtual Tensors answer(const Block& /*block*/) { return {}; }
  /// Called once for each batch after its inputs(), with the payload that came
  /// from below for it; only with traits().upper == UpperEnd::from_data.
  virtual Lesson learn(const InputContext& /*context*/,
                       const Payload& /*from_below*/) {
    return {};
  }
  /// Bytes kept for batches between their inputs() and their learn().
  virtual std::int64_t kept_bytes() const { return 0; }
};

using MakeLower =
    std::function<std::unique_ptr<Lower>(const BoundarySite& site)>;
using MakeUpper =
    std::function<std::unique_ptr<Upper>(const BoundarySite& site)>;

std::unique_ptr<Upper> make_plain_upper(const BoundarySite& site);

/// Makes the two ends of a boundary, each for its own block; both get the
/// boundary's `site`.
struct MakeBoundary {
  MakeBoundary() = default;
  /// For policies without an upper end of their own, a lambda is enough.
  template <std::invocable<const BoundarySite&> Make>
  MakeBoundary(Make make_lower) : lower(std::move(make_lower)) {}
  MakeBoundary(MakeLower make_lower, MakeUpper make_upper)
      : lower(std::move(make_lower)), upper(std::move(make_upper)) {}

  MakeLower lower = {};
  MakeUpper upper = make_plain_upper;
  /// Whether the lower end sends something else up than h_k when a batch is
  /// evaluated: then the policy holds for the whole run.
  bool changes_evaluations = false;
};

struct PlugIns;
/// Reads a policy's options at once. `plug_ins` are the heads, synthesizers and
/// other parts that the policy may use. Not only a plain function: what makes a
/// policy in Python is an object.
using ConfigurePolicy =
    std::function<MakeBoundary(Fields& options, const PlugIns& plug_ins)>;

/// Text of `sluice list methods NAME`, which adds what follows from the traits.
/// Plain text, a paragraph each.
struct MethodPage {
  std::string_view source = {};      ///< authors, title, venue
  std::string_view kept = {};        ///< between a batch's forward and backward
  std::string_view batch_norm = {};  ///< which pass moves its statistics
  std::string_view randomness = {};  ///< which masks the backward sees
  std::string_view staleness = {};   ///< in batches and in updates
  /// Options of the boundaries in the page's example beside `policy`, as the
  /// inside of an inline TOML table; empty: the defaults.
  std::string_view example = {};
};

/// A method: how it is configured, and its page.
struct Method {
  ConfigurePolicy configure = nullptr;
  MethodPage (*page)() =
      nullptr;  ///< nullptr: a user's own method, without one
};
using PolicyRow = Row<Method>;

/// The table of all policies; a new one is one source file and one row.
std::span<const PolicyRow> policies();

}  // namespace sluice
