#pragma once

#include <string>

#include "experiments/config/experiment.h"
#include "lib/base/config_node.h"

namespace sluice {

/// Reads the config, with what its strings refer to (files/interpolation.h),
/// and opens its data. `data_root` is where data files are looked for when the
/// config has no data.root. Writes nothing but the tokens of a text into its
/// cache (data.cache). Throws UserError for everything
/// that is wrong with the config.
Experiment read_experiment(const ConfigNode& config,
                           const std::string& data_root);

/// Reads the experiment of a user's own network: the config has neither data
/// nor model, and no key that is about the loop. Beside the others it may have
/// `turns` and `turns_per_epoch`, which schedules of the learning rate are made
/// from; and where it writes a run, `name`, `checkpoint`, `trace` and `hashes`.
/// `resolved` then says `own_loop`, with which read_experiment() refuses it.
Experiment read_network(const ConfigNode& config, const OwnNetwork& network);

}  // namespace sluice
