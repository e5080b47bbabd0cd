#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lib/blocks/evaluation.h"
#include "lib/schedules/plan/action.h"
#include "lib/workers/seat_log.h"
#include "lib/workers/seat_parts.h"

namespace sluice {

/// The evaluations of a run's last block: first of the batches of validation,
/// if any, then of the training part, then of the test. For one thread.
class Evaluations {
 public:
  /// The settings outlive it.
  explicit Evaluations(const SeatSettings& settings) : settings_(settings) {}

  /// Called before the first batch.
  void begin() { current_ = {}; }
  /// Adds the batch of the action, and writes the record after the last one.
  void add(const Action& evaluate, const at::Tensor& outputs,
           const at::Tensor& labels, SeatLog& log);

 private:
  const SeatSettings& settings_;
  Evaluation current_;
  Evaluation validation_;
  Evaluation training_;
};

}  // namespace sluice
