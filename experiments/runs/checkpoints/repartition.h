#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/checkpoints/saved_state.h"

namespace sluice {

// A run that goes on with its model cut in other places: `sluice run --resume
// RUN blocks=4`. Weights, statistics and what optimizers remember belong to
// parameters and layers, so they go along; so do heads, synthesizers and input
// models of boundaries that stay, which are named after the layer below them.
// What belongs to a block by its number can't.

/// The run's config for another cut, with tables [boundary.k] and [optimizer.k]
/// for the new boundaries and blocks. A boundary that stays keeps its table; a
/// new one takes that of the others, if they are all alike. A block takes the
/// optimizer of the blocks that its layers come from, if they are all alike.
/// What isn't so is left out, unless `overrides` ("key=value"), which are
/// applied last, say it: throws UserError, naming what to add.
ConfigNode config_for_cut(const Experiment& run, const Partition& ranges,
                          std::span<const std::string> overrides);

/// Throws UserError where the weights, of `source`, have adapters that the
/// experiment doesn't: without them they are those of another network.
void check_adapters(const Experiment& experiment, const NamedTensors& weights,
                    const std::string& source);

/// Throws UserError where the weights, of `source`, have layers that a codec
/// put at a cut (BoundaryCodecs::add_layers) and the experiment has no such
/// codec there: without them the other weights make another network.
void check_cut_layers(const Experiment& experiment, const NamedTensors& weights,
                      const std::string& source);

/// First layers of the blocks of a checkpoint; empty: it doesn't say.
std::vector<std::int64_t> cut_of(const SavedState& saved);

/// Whether the experiment cuts its model in the same places, as far as one
/// knows.
bool is_cut_so(const Experiment& experiment,
               const std::vector<std::int64_t>& first_layers);

/// State that a block which was cut anew continues from: the state of
/// parameters, and counters of the saved block that had its first layer. Counts
/// of staleness begin anew. Nothing may be in flight.
NamedTensors state_for_block(const Experiment& experiment, int block,
                             const NamedTensors& state,
                             std::string_view source);

/// Adds those of `now` that belong to a boundary which the saved cut hasn't
/// got: what learns there begins with what it is.
void add_new_sources(const Experiment& experiment,
                     const std::vector<std::int64_t>& first_layers,
                     const NamedTensors& now, NamedTensors& saved);

/// Text about the cut for the console: which blocks become which, and which
/// heads, synthesizers and input models begin anew or are left behind. Empty
/// when the checkpoint has the experiment's cut.
std::string describe_cut(const Experiment& experiment,
                         const std::string& checkpoint);

}  // namespace sluice
