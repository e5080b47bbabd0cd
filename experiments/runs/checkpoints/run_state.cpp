#include "experiments/runs/checkpoints/run_state.h"

#include <filesystem>
#include <limits>

#include "experiments/config/files/extends.h"
#include "experiments/config/numbers.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/folder/data_identity.h"
#include "experiments/runs/folder/provenance.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/folder/run_reader.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Read again, so that keys which are younger than the run have their defaults;
/// with our data, which may lie elsewhere by now.
ConfigNode resolved_config(const std::string& folder,
                           const Experiment& experiment, const ReadRun& read) {
  ConfigNode config = read_config_file(config_of_run(folder));
  if (const ConfigNode* data = experiment.resolved.find("data"))
    if (const ConfigNode* root = data->find("root"))
      config.set_path("data.root", *root);
  return read(config).resolved;
}

/// The first difference of the folder's run from the experiment; empty: none.
std::string difference_of(const std::string& folder,
                          const Experiment& experiment, const ReadRun& read) {
  try {
    return first_difference(
        numbers_of(resolved_config(folder, experiment, read)),
        numbers_of(experiment.resolved));
  } catch (const UserError& error) {
    return error.what();  // of a program that had other keys
  }
}

/// The marker may be missing: a run that was killed just before it has its
/// figure and last checkpoint all the same.
bool is_done(const std::string& folder,
             const std::optional<records::Evaluation>& evaluation,
             std::int64_t last_checkpoint, std::int64_t turns) {
  if (!evaluation) return false;
  if (fs::exists(folder + "/done")) return true;
  return last_checkpoint >= turns && evaluation->turn >= turns;
}

}  // namespace

std::optional<records::Evaluation> evaluation_until(const std::string& folder,
                                                    std::int64_t turn) {
  std::optional<records::Evaluation> last;
  for (const auto& each : RunReader(folder).next<records::Evaluation>())
    if (each.turn <= turn) last = each;
  return last;
}

ReadRun reader_with(const std::string& data_root) {
  return [data_root](const ConfigNode& config) {
    return read_experiment(config, data_root);
  };
}

RunState state_of(const std::string& folder, const Experiment& experiment,
                  const std::string& data_root) {
  return state_of(folder, experiment, reader_with(data_root));
}

RunState state_of(const std::string& folder, const Experiment& experiment,
                  const ReadRun& read) {
  RunState state;
  if (!fs::exists(config_of_run(folder))) return state;
  state.difference = difference_of(folder, experiment, read);
  if (!state.difference.empty()) {
    state.kind = RunState::Kind::other;
    return state;
  }
  const auto checkpoints = find_checkpoints(checkpoints_of_run(folder));
  const std::int64_t last =
      checkpoints.empty() ? 0 : checkpoints.rbegin()->first;
  const auto evaluation =
      evaluation_until(folder, std::numeric_limits<std::int64_t>::max());
  if (is_done(folder, evaluation, last, experiment.length.turns)) {
    state.kind = RunState::Kind::done;
    state.evaluation = *evaluation;
  } else {
    state.kind = checkpoints.empty() ? RunState::Kind::begun
                                     : RunState::Kind::unfinished;
  }
  if (state.kind == RunState::Kind::begun) return state;
  state.provenance = read_provenance(folder + "/run.json");
  state.difference =
      data_difference(data_in(state.provenance), data_identity(experiment));
  if (!state.difference.empty()) {
    state.kind = RunState::Kind::other;
    state.is_other_data = true;
  }
  return state;
}

}  // namespace sluice
