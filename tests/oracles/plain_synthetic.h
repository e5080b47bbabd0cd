#pragma once

#include <optional>
#include <string>

#include "tests/experiments/helpers/training.h"

namespace sluice {

/// What the oracle of synthetic gradients gets of a config, beside its
/// first weights: a rate for everything, DNI's lambda of the signal and of the
/// synthesizers' target, and whether blocks forward what input models predict.
struct SyntheticOptions {
  double lr = 0.05;
  double lambda = 0;
  std::optional<double> lam_target = {};  ///< nothing: lambda
  bool unlocked = false;
  double input_lr = 0.001;  ///< of the input models
  /// Replicas average all weights after each update; else they sum gradients.
  bool averages = false;
};

/// Trains the small net of `lines` (three blocks of one linear layer each, two
/// synthesizers of one hidden layer, input models of none) in plain autograd
/// and plain SGD, with as many replicas; all weights of the first at the end.
NamedTensors plain_synthetic(const std::string& lines,
                             const SyntheticOptions& options);

}  // namespace sluice
