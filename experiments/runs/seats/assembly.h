#pragma once

#include <memory>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/seats/first_weights.h"
#include "experiments/runs/seats/seat_ends.h"
#include "lib/metrics/sink.h"
#include "lib/workers/seat.h"

namespace sluice {

/// The account of a seat.
std::shared_ptr<MemoryAccount> memory_of_seat(const Experiment& experiment,
                                              int seat);

/// Sets threads and allocator of the process. Called once, before its threads
/// use LibTorch.
void prepare_process(const Experiment& experiment);

/// A seat, by its number: its layers with their first weights, its policies,
/// its optimizer, and the sources that it needs: those of the experiment's
/// data, or where it is given batches, `fed`. Throws UserError when the weights
/// that it shall start with don't fit, or its GPU has no memory for it.
std::unique_ptr<Seat> make_seat(const Experiment& experiment, int seat,
                                Ends ends, std::shared_ptr<Sink> sink,
                                const RunFiles& files,
                                std::shared_ptr<Observer> observer = nullptr,
                                std::shared_ptr<Source> fed = nullptr);

/// The probe that compares gradients with the true ones; nullptr when the
/// experiment asks for no probe.
std::shared_ptr<Observer> make_probe(const Experiment& experiment,
                                     std::shared_ptr<Sink> sink);

/// Throws UserError unless a file or checkpoint has all the model's weights in
/// their shapes. For a check before anything is written.
void check_weights(const Experiment& experiment, const std::string& path);

/// Throws UserError unless the seats of all blocks can continue from
/// files.resume: weights, those of heads and synthesizers too, the states of
/// optimizers, what is in flight. For a check before anything is written.
void check_resumable(const Experiment& experiment, const RunFiles& files);

/// "backprop", or "local_loss", or "backprop, local_loss" where they differ.
std::string method_of(const Experiment& experiment);

}  // namespace sluice
