#pragma once

#include <memory>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "experiments/config/experiment.h"
#include "experiments/data/sample_source.h"
#include "lib/base/channel.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/metrics/sink.h"
#include "lib/workers/seat.h"

namespace sluice {

/// The ends of the channels of one seat; empty where there is no neighbour.
struct Ends {
  Link below = {};
  Link above = {};
  Replicated::Ways replicas = {};  ///< empty: one replica
  /// Charged with what the seat allocates; by default one is made for it.
  std::shared_ptr<MemoryAccount> memory = nullptr;
  /// Where the seat computes; by default device_of_seat().
  std::optional<c10::Device> device = std::nullopt;
};

/// The account of a seat.
std::shared_ptr<MemoryAccount> memory_of_seat(const Experiment& experiment,
                                              int seat);

/// Once per process, before its threads use LibTorch: threads and allocator.
void prepare_process(const Experiment& experiment);

/// What the seats of a run save and continue from; each may be empty.
struct RunFiles {
  std::string checkpoints = {};  ///< the folder that they are saved in
  std::string resume = {};       ///< the checkpoint that the run continues from
};

/// A seat, by its number: its layers with their first weights, its policies,
/// its optimizer, and the sources that it needs: those of the experiment's
/// data, or where it is given batches, `fed`. Throws UserError when the weights
/// that it shall start with don't fit, or its GPU has no memory for it.
std::unique_ptr<Seat> make_seat(const Experiment& experiment, int seat,
                                Ends ends, std::shared_ptr<Sink> sink,
                                const RunFiles& files,
                                std::shared_ptr<Observer> observer = nullptr,
                                std::shared_ptr<Source> fed = nullptr);

/// What compares gradients with the true ones; nullptr when the experiment asks
/// for no probe.
std::shared_ptr<Observer> make_probe(const Experiment& experiment,
                                     std::shared_ptr<Sink> sink);

/// Throws UserError unless a file or checkpoint has all the model's weights in
/// their shapes. For a check before anything is written.
void check_weights(const Experiment& experiment, const std::string& path);

/// Throws UserError unless the seats of all blocks can continue from
/// files.resume: weights, those of heads and synthesizers too, the states of
/// optimizers, what is in flight. For a check before anything is written.
void check_resumable(const Experiment& experiment, const RunFiles& files);

/// With what the grants of a run begin that continues from a checkpoint.
struct Continued {
  std::int64_t phase = 0;
  std::int64_t first_batch = 0;
};

/// Batches in a checkpoint that were forwarded and not applied, over all
/// blocks: those of Mark::in_flight and Mark::lesson; and those that a window
/// has summed.
struct InFlight {
  std::int64_t batches = 0;  ///< that some block has not applied, or learned
  std::int64_t accumulated = 0;  ///< that were, towards the next update
};
InFlight in_flight_in(const std::string& checkpoint);
InFlight in_flight_in(const SavedState& saved);

/// Batches are in flight in a checkpoint unless the pipe was drained. Throws
/// UserError when they are so under another cut or other policies; and under
/// another cut when gradients have been accumulated.
Continued continued_from(const Experiment& experiment,
                         const std::string& checkpoint);

/// The batches that the experiment trains with, or those that an assistant
/// chooses from; reads the training files.
std::unique_ptr<SampleSource> training_source(const Experiment& experiment);

/// Channels in memory between all neighbours and replicas, by seat.
std::vector<Ends> memory_ends(const Experiment& experiment);

/// "backprop", or "local_loss", or "backprop, local_loss" where they differ.
std::string method_of(const Experiment& experiment);

}  // namespace sluice
