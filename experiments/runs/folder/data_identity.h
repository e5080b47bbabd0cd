#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "experiments/config/experiment.h"

namespace sluice {

/// Identity of a run's data, for `data` in run.json: `files`, by
/// fingerprint_of(), and `split`, how many samples each split has, the seeds
/// that choose them and their order, and how they are cut into batches. Empty
/// without data.
nlohmann::ordered_json data_identity(const Experiment& experiment);

/// The data of the run's last stretch that says them; null: none does, it is
/// older than they are. `run`: what run.json holds.
nlohmann::ordered_json data_in(const nlohmann::ordered_json& run);

/// What differs first: "x.npy has ..., and had ..."; empty: nothing that both
/// say. The names of files don't count.
std::string data_difference(const nlohmann::ordered_json& before,
                            const nlohmann::ordered_json& now);

/// The data's identity without the order of the samples and their batches, in
/// which runs may differ that are compared.
nlohmann::ordered_json without_order(nlohmann::ordered_json data);
/// The data's identity without the sizes of evaluated splits, which
/// limit.evaluation changes.
nlohmann::ordered_json without_evaluated(nlohmann::ordered_json data);

/// Throws UserError unless the run's data are the experiment's.
void check_same_data(const std::string& run_folder,
                     const Experiment& experiment);

}  // namespace sluice
