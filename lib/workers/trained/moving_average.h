#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// The exponential moving average of weights over their updates,
/// a = decay * a + (1 - decay) * w (Polyak and Juditsky 1992; Ruppert 1988):
/// for evaluations and exports, while training goes on with w. For one thread.
class MovingAverage {
 public:
  /// The names and number of the weights don't change.
  MovingAverage(double decay, const NamedTensors& weights);

  /// To be called before the first update of each phase: the average begins
  /// with these values the first time, unless it was restored.
  void begin(const NamedTensors& weights);
  /// Moves the average towards the weights; called after each update.
  void follow(const NamedTensors& weights);
  /// Averages in the order of the weights.
  const Tensors& values() const { return values_; }

  /// The averages as "<name>.average"; they share the storage.
  NamedTensors state() const;
  /// From what state() returned, among other tensors; does nothing where there
  /// is none of it.
  void restore(const NamedTensors& state, std::string_view source);

 private:
  double decay_;
  bool has_begun_ = false;
  std::vector<std::string> names_;
  Tensors values_;
};

}  // namespace sluice
