#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// What a MovingAverage is of.
struct AverageRule {
  /// a = decay * a + (1 - decay) * w at each update; 0: the mean of the weights
  /// after each update since `first_turn`.
  double decay = 0;
  /// Before it the average is the weights themselves.
  std::int64_t first_turn = 0;
};

/// The rule of a mean over this share of the turns, the last ones.
AverageRule tail_of(double share, std::int64_t turns);

/// An average of weights over their updates (Polyak and Juditsky 1992; Ruppert
/// 1988), exponential or of equal weights: for evaluations and exports, while
/// training goes on with the weights. For one thread.
class MovingAverage {
 public:
  /// The names and number of the weights don't change.
  MovingAverage(const AverageRule& rule, const NamedTensors& weights);

  /// To be called before the first update of each phase: the average begins
  /// with these values the first time, unless it was restored.
  void begin(const NamedTensors& weights);
  /// Moves the average towards the weights; called after each update.
  void follow(const NamedTensors& weights, std::int64_t turn);
  /// Averages in the order of the weights.
  const Tensors& values() const { return values_; }

  /// The averages as "<name>.average", and of means "<name>.averaged": their
  /// first turn and the number of updates. They share the storage.
  NamedTensors state() const;
  /// From what state() returned, among other tensors; does nothing where there
  /// is none of it. A mean that began at another turn begins anew.
  void restore(const NamedTensors& state, std::string_view source);

 private:
  double weight_of_next(std::int64_t turn);

  AverageRule rule_;
  bool has_begun_ = false;
  std::vector<std::string> names_;  // of the weights
  Tensors values_;
  at::Tensor averaged_;  // [2], int64; undefined with a decay
};

}  // namespace sluice
