#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lib/tensors/gpu/graphed_function.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/optimizer.h"
#include "lib/updates/transform.h"

namespace sluice {

/// An update of parameters: the links that the options want, then the
/// optimizer. Used by one thread.
class UpdateChain {
 public:
  UpdateChain(const UpdateOptions& options, const NamedTensors& parameters);

  /// gradients: sums over a window, as Optimizer::step() takes them; what is
  /// left in them is what the optimizer got. Returns the rate that was used.
  /// `storage`: where the first parameters lie from now on, without anything in
  /// it; empty: they are stepped in place.
  double apply(Tensors& gradients, UpdateInfo info,
               const Tensors& storage = {});
  /// Sets the parameters to values from elsewhere; `storage` as of apply().
  void assign(const Tensors& values, const Tensors& storage);
  /// The learning rate of a turn, before any link changes it.
  double rate_at(std::int64_t turn, std::int64_t turns,
                 const Epochs& epochs) const;
  /// Whether apply() may be given parts_of() the gradients.
  bool takes_parts() const;
  /// Velocity of the parameters, as Optimizer::direction().
  Tensors direction(double learning_rate) const;
  /// The state of all links, for a checkpoint.
  NamedTensors state() const;

 private:
  MovedWeights move_to(const Tensors& storage);
  double apply_now(Tensors& gradients, UpdateInfo info, const Tensors& storage);
  GraphedFunction::Constants constants_of(const UpdateInfo& info) const;

  NamedTensors parameters_;
  LearningRate rate_;
  std::vector<std::unique_ptr<Transform>> links_;
  std::unique_ptr<Optimizer> optimizer_;
  VelocityOptimizer* velocity_ = nullptr;  ///< optimizer_, if it is one
  std::optional<GraphedFunction> graph_;   ///< of an update in place
};

}  // namespace sluice
