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

/// Once per process, before its threads use LibTorch: threads and allocator.
void prepare_process(const Experiment& experiment);

/// What the workers of a run save and continue from; each may be empty.
struct RunFiles {
  std::string checkpoints = {};  ///< the folder that they are saved in
  std::string resume = {};       ///< the checkpoint that the run continues from
};

/// Where block 1 takes its batches.
struct Sources {
  std::shared_ptr<Source> training = nullptr;
  std::shared_ptr<Source> evaluation = nullptr;
};

/// The worker of block k: its layers with their first weights, its policy, its
/// optimizer, and for block 1 the sources. Throws UserError when the weights
/// that it shall start with don't fit.
std::unique_ptr<Worker> make_worker(const Experiment& experiment, int block,
                                    Ends ends, std::shared_ptr<Sink> sink,
                                    const RunFiles& files);
/// The same with other sources than the experiment's data.
std::unique_ptr<Worker> make_worker(const Experiment& experiment, int block,
                                    Ends ends, std::shared_ptr<Sink> sink,
                                    const RunFiles& files, Sources sources);

/// Throws UserError unless a file or checkpoint has all the model's weights in
/// their shapes. For a check before anything is written.
void check_weights(const Experiment& experiment, const std::string& path);

/// Grant::first_batch for a run that continues from the checkpoint: batches are
/// in flight there unless the pipe was drained. Throws UserError when they are
/// so under another cut or other policies.
std::int64_t first_batch_of(const Experiment& experiment,
                            const std::string& checkpoint);

/// The batches that the experiment trains with; reads the training files.
std::unique_ptr<SampleSource> training_source(const Experiment& experiment);

/// Channels in memory between all neighbours: index k-1 for block k.
std::vector<Ends> memory_ends(const Experiment& experiment);

/// "backprop", or "local_loss", or "backprop, local_loss" where they differ.
std::string method_of(const Experiment& experiment);

}  // namespace sluice
