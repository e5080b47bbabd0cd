#pragma once

#include <memory>
#include <string>

#include "experiments/data/sample_source.h"
#include "experiments/experiment.h"
#include "lib/base/channel.h"
#include "lib/metrics/sink.h"
#include "lib/worker.h"

namespace sluice {

/// The ends of the channels of one block; empty where there is no neighbour.
struct Ends {
  Link below = {};
  Link above = {};
};

/// The worker of block k: its layers with their first weights, its policy, its
/// optimizer, and for block 1 the sources.
std::unique_ptr<Worker> make_worker(const Experiment& experiment, int block,
                                    Ends ends, std::shared_ptr<Sink> sink,
                                    const std::string& checkpoint_folder);

/// The batches that the experiment trains with; reads the training files.
std::unique_ptr<SampleSource> training_source(const Experiment& experiment);

/// Channels in memory between all neighbours: index k-1 for block k.
std::vector<Ends> memory_ends(const Experiment& experiment);

/// "backprop", or "local_loss", or "backprop, local_loss" where they differ.
std::string method_of(const Experiment& experiment);

}  // namespace sluice
