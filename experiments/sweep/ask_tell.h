#pragma once

#include <cstdio>
#include <string>

#include "experiments/runs/processes/stop_signals.h"
#include "experiments/sweep/file/sweep.h"
#include "experiments/sweep/run_sweep.h"

namespace sluice::sweep {

/// The two ends of a driver's pipes.
struct DriverStreams {
  int proposals = 0;             ///< a descriptor that lines are read from
  std::FILE* answers = nullptr;  ///< what lines are written to
};

/// Does the runs that a driver proposes, as it proposes them, `options.jobs` at
/// once, and answers with what they come to: the protocol is ask_tell_manual().
/// A proposal that was done before, in this folder, is answered from there. It
/// ends when the driver proposes no more and all is answered; a signal, or a
/// driver that doesn't read, lets the runs save checkpoints. The result counts
/// answers. Throws UserError, before anything is read, for a sweep that has
/// cells of its own, and for a folder as run_sweep() does.
SweepResult answer_proposals(const Sweep& sweep, const SweepOptions& options,
                             StopSignals& signals,
                             const DriverStreams& streams);

/// The manual of the protocol.
std::string ask_tell_manual();

}  // namespace sluice::sweep
