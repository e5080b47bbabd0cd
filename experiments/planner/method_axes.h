#pragma once

#include <cstdint>
#include <string>

#include "experiments/config/experiment.h"

namespace sluice::planner {

/// Costs of a way to train beside back-propagation in one network, on three
/// axes: computation, communication, approximation.
struct MethodAxes {
  // Computation. Passes beyond one forward and one backward, of a block and a
  // batch, on average over the blocks.
  double forwards = 0;
  double backwards = 0;
  double lessons = 0;  ///< of a synthesizer or an input model
  /// Boundaries that make a signal of their own, by a head or a synthesizer, of
  /// so many.
  int own_signals = 0;
  int boundaries = 0;
  double steps = 1;  ///< of the optimizer in an update

  // Communication.
  /// Bytes of a turn over all boundaries of a replica, labels left out, in
  /// those of the turn's activations there.
  double boundary_bytes = 0;
  /// Bytes that a replica sends to others in a turn, in those of its model.
  double replica_bytes = 0;

  // Approximation.
  /// Weights, and what is as large, that a replica holds, in those of its
  /// model: those that it trains, those of earlier versions, and what policy
  /// and compressor keep; of blocks the most at a time.
  double copies = 1;
  std::int64_t batches = 0;  ///< by which a gradient is late, at most
  std::int64_t updates = 0;  ///< the same in updates
  /// Updates from one exchange of replicas with weights of their own to the
  /// next; 0: all have the same.
  std::int64_t apart = 0;
};

/// Axes of the method in the experiment's first phase. Passes, bytes at
/// boundaries, kept weights and staleness are counted while it trains, on a
/// virtual clock on which each backward takes two forwards; it needs some 24
/// turns, and no codec. The rest follows from its plan. Writes nothing.
MethodAxes method_axes(const Experiment& experiment);

/// The three axes in words: "0.75 more forwards; signals made at 3 of 3
/// boundaries".
std::string computation_text(const MethodAxes& axes);
std::string communication_text(const MethodAxes& axes);
std::string approximation_text(const MethodAxes& axes);

}  // namespace sluice::planner
