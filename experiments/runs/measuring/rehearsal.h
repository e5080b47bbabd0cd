#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/metrics/records.h"
#include "lib/schedules/simulation/costs.h"

namespace sluice {

/// Seconds and bytes of some turns of a block's seat.
struct Rehearsal {
  BlockCosts seconds =
      {};  ///< medians; heads and replays are part of a backward
  records::Memory memory = {};  ///< the most that it will hold
  /// The same while as many blocks compute as were asked for.
  std::optional<BlockCosts> beside = {};
};

/// The forecast of a block as a record of the metrics.
records::Forecast forecast_of(const Rehearsal& rehearsal, int block);

struct RehearsalOptions {
  std::int64_t warm_up = 3;   ///< turns after the pipe has filled
  std::int64_t measured = 7;  ///< turns after those
  /// Above 1: afterwards, so many blocks at the same time, in threads.
  std::int64_t beside = 1;
};

/// Lets each block do the first turns of its schedule alone, one after the
/// other, between neighbours that are made up: activations are those of the
/// block below, gradients are zeros. So no more than one block is in memory at
/// a time, unless they are to compute side by side. Nothing is written.
/// `queue_bytes` follows from the schedule at these costs and at the
/// experiment's links: a faster neighbour fills the channel. Once per process
/// prepare_process() comes before it.
std::vector<Rehearsal> rehearse(const Experiment& experiment,
                                const RehearsalOptions& options = {});

}  // namespace sluice
