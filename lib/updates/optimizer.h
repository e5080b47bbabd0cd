#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/learning_rate.h"

namespace sluice {

/// Parameters that differ from the rest, by the pattern of their names.
struct ParameterGroup {
  std::vector<std::string> match;  ///< shell patterns: "*.bias", "*norm*"
  double weight_decay = 0;
  double lr_scale = 1;
};

class Optimizer;
class Transform;
struct OptimizerOptions;

/// Makes an update rule with the keys of its own that were read.
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(
    const OptimizerOptions& options, const NamedTensors& parameters)>;
/// Makes a correction of stale gradients (corrections.h), likewise, or another
/// link of an update (chosen_transforms.h).
using MakeCorrection =
    std::function<std::unique_ptr<Transform>(const NamedTensors& parameters)>;

/// Norms are clipped over the gradients of a block, or of the whole model.
enum class ClipScope : std::uint8_t { block, model };

/// Place where gradients are clipped: in the update that replicas apply, or in
/// what each replica gives the others.
enum class ClipPlace : std::uint8_t { update, replica };

struct OptimizerOptions {
  std::string name = "sgd";
  LearningRate learning_rate = {};
  double weight_decay = 0;
  // sgd
  double momentum = 0;
  bool nesterov = false;
  bool look_ahead = false;  ///< gradients are those at weights further along
  // Keys of Adam and of rules made from it.
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::vector<ParameterGroup> groups = {};  ///< the first that matches holds
  double clip_norm = 0;                     ///< 0: no clipping
  ClipScope clip_scope = ClipScope::block;
  ClipPlace clip_at = ClipPlace::update;
  /// Decay of the MovingAverage that is evaluated and saved; 0: none.
  double average = 0;
  /// Share of the run's turns, at its end, of whose weights the MovingAverage
  /// is the mean; 0: none.
  double tail_average = 0;
  /// "layers.7.": what the names of the model's last layer begin with, where
  /// that is known. For rules that treat outputs apart.
  std::string last_layer = {};
  MakeOptimizer make = {};      ///< empty: the row's, with default keys
  MakeCorrection correct = {};  ///< empty: stale gradients are applied as such
  std::string correction = {};  ///< the name of its row; empty: none
  /// Links between the correction and the optimizer (chosen_transforms.h).
  std::vector<MakeCorrection> transforms = {};
  /// Whether that reads UpdateInfo::forward_weights.
  bool wants_forward_weights = false;
  /// Whether the rule or the correction treats no element alone: then replicas
  /// can't step a part each.
  bool wants_whole = false;

  /// Whether averages are evaluated and saved in place of the weights.
  bool averages() const { return average > 0 || tail_average > 0; }

  void describe(Fields& fields);
  /// beta1, beta2 and epsilon, for rules that have them.
  void describe_moments(Fields& fields);
};

/// Parameters that lie in new storage, which holds nothing yet, and their
/// values in the old one: an update writes the next version of weights beside
/// the one that batches in flight refer to.
struct MovedWeights {
  Tensors before = {};
  Tensors now = {};

  void copy() const;
};

/// Optimizer of a block's parameters, with ATen's fused operations where they
/// exist. A parameter without a gradient stays unchanged: no weight decay, no
/// momentum.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// gradients: one per parameter, in the order of construction; an undefined
  /// one skips its parameter. They may be overwritten.
  virtual void step(const Tensors& gradients, double learning_rate) = 0;
  /// As step(), with the same bits, where the first parameters have moved. By
  /// default copies them first.
  virtual void step_from(const MovedWeights& moved, const Tensors& gradients,
                         double learning_rate);
  /// Change of each parameter by a step without a new gradient: its velocity,
  /// with this learning rate. Throws UserError where the rule keeps none.
  virtual Tensors direction(double learning_rate) const;
  /// "<parameter>.momentum", "<parameter>.step" ...: shares the storage, so
  /// copying into these tensors restores a state.
  virtual NamedTensors state() const = 0;
};

/// What a step of a rule with a velocity v = momentum * v + g goes along:
/// weights -= rate * (velocity * v + gradient * g).
struct StepMix {
  double velocity = 1;
  double gradient = 0;
  /// The momentum of this step; nothing: the rule's own.
  std::optional<double> momentum = {};

  bool operator==(const StepMix&) const = default;
};

/// A rule with such a velocity, which a correction may weigh against the
/// gradient. step() is step_along() of the velocity alone.
class VelocityOptimizer : public Optimizer {
 public:
  virtual void step_along(const Tensors& gradients, double learning_rate,
                          const StepMix& mix) = 0;
};

/// Reads the keys that a rule has beside those of all rules.
using ReadOptimizer = MakeOptimizer (*)(Fields& fields,
                                        OptimizerOptions& options);
using OptimizerRow = Row<ReadOptimizer>;

/// A new update rule is one source file and one row.
std::span<const OptimizerRow> optimizers();

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          const NamedTensors& parameters);

}  // namespace sluice
