#pragma once

#include <string>

#include "tests/experiments/helpers/training.h"

namespace sluice {

/// What the oracle of non-negative factors (DeepFacto) gets of a config,
/// beside its first weights and factors.
struct PlainFactors {
  double lr = 0.05;
  double beta = 1;
  double step_size = 0.1;         ///< of S
  double factor_step_size = 0.1;  ///< of F, over the mean of |s|^2
  int fits = 10;                  ///< multiplicative updates of S
  bool per_sample = false;        ///< S is kept, and u
  bool dual = false;
};

/// Trains the small net of `lines` (blocks of one linear layer each, with ReLU
/// between them) with a product S F of non-negative factors at each boundary,
/// in float64: gradients of the penalty at S, F and the weights by plain
/// autograd of its sum, and plain SGD. All weights at the end, and F as
/// "factors.K.f".
NamedTensors plain_factors(const std::string& lines,
                           const PlainFactors& options);

}  // namespace sluice
