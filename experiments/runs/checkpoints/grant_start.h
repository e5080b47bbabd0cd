#pragma once

#include <cstdint>
#include <string>

#include "experiments/config/experiment.h"
#include "lib/checkpoints/saved_state.h"

namespace sluice {

/// Phase and batch with which the grants of a continued run begin.
struct GrantStart {
  std::int64_t phase = 0;
  std::int64_t first_batch = 0;
};

/// Batches in a checkpoint that were forwarded and not applied, over all
/// blocks: those of Mark::in_flight and Mark::lesson; and those that a window
/// has summed.
struct PendingBatches {
  std::int64_t batches = 0;  ///< that some block has not applied, or learned
  std::int64_t accumulated = 0;  ///< that were, towards the next update
};
PendingBatches in_flight_in(const std::string& checkpoint);
PendingBatches in_flight_in(const SavedState& saved);

/// Batches are in flight in a checkpoint unless the pipe was drained. Throws
/// UserError when they are so under another cut or other policies; and under
/// another cut when gradients have been accumulated.
GrantStart continued_from(const Experiment& experiment,
                          const std::string& checkpoint);

}  // namespace sluice
