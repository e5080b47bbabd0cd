#pragma once

#include <cstdint>
#include <string>

#include "tests/experiments/helpers/training.h"

namespace sluice {

enum class PlainOrder : std::uint8_t { top_down, at_once, weights_first };
enum class PlainDual : std::uint8_t { none, each_step, each_batch };

/// What the oracle of auxiliary variables gets of a config, beside its first
/// weights.
struct PlainVariables {
  double lr = 0.05;
  double beta = 1;
  double step_size = 1;
  int steps = 1;
  PlainOrder order = PlainOrder::top_down;
  PlainDual dual = PlainDual::none;
  bool per_sample = false;
  bool adam = false;  ///< steps of z by Adam, with the rate step_size
  /// Batches of an echo that comes `times` times: first from the top, then
  /// weights first. 0: none comes again.
  int echo = 0;
  int times = 1;
  /// Whether variables move in passes after the first.
  bool moves_later = true;
};

/// Trains the small net of `lines` (blocks of one linear layer each, with ReLU
/// between them) by gradients of the Lagrangian at z and at the weights,
/// written as sums, in plain autograd and plain SGD; all its weights at the
/// end.
NamedTensors plain_variables(const std::string& lines,
                             const PlainVariables& options);

}  // namespace sluice
