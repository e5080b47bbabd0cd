#include "experiments/runs/checkpoints/resume_check.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/manual/resume_changes.h"
#include "experiments/runs/folder/data_identity.h"
#include "experiments/runs/folder/maker.h"
#include "experiments/runs/folder/provenance.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// Line on data that can't be compared; empty where they could be.
std::string check_data(const Experiment& experiment, const std::string& folder,
                       const nlohmann::ordered_json& run,
                       const RestartPoint& from, bool has_other_limit) {
  if (!experiment.data) return "";
  auto before = data_in(run);
  if (has_other_limit) before = without_evaluated(std::move(before));
  if (!before.is_object())
    return fmt::format(
        "{}: its run.json is older than fingerprints of data: whether the data "
        "are those that it was trained with can't be compared",
        folder);
  const std::string found = data_difference(before, data_identity(experiment));
  if (!found.empty())
    throw UserError(
        "{}: the data are not those that it was trained with: {}; bring those "
        "back (data.root says where they lie), or begin a run with "
        "initial_weights = '{}'",
        folder, found, from.checkpoint);
  return "";
}

/// Line on another maker than that of the last stretch; empty: the same. A
/// changed engine, device or number of threads is a key, with a line of its
/// own.
std::string maker_line(const Experiment& experiment,
                       const nlohmann::ordered_json& run,
                       const RestartPoint& from) {
  constexpr std::array<std::string_view, 3> kKeysOfConfig = {"engine", "device",
                                                             "threads"};
  const std::array makers = {makers_in(run).back(), maker_here(experiment)};
  const std::string found = mixed(makers, kKeysOfConfig);
  if (found.empty()) return "";
  return fmt::format(
      "Computed by others from turn {} on: {}: the last bits may differ from "
      "those of an uninterrupted run",
      from.turn, found);
}

}  // namespace

std::vector<std::string> check_resume(const Experiment& experiment,
                                      const std::string& folder,
                                      const RestartPoint& from) {
  const std::vector<KeyChange> changes =
      changed_keys(read_config_file(config_of_run(folder)), experiment);
  refuse_changes(changes, from.checkpoint);
  const auto run = read_provenance(folder + "/run.json");
  std::vector<std::string> lines;
  bool has_other_limit = false;
  for (const KeyChange& change : changes) {
    lines.push_back(text_of(change, from.turn));
    has_other_limit = has_other_limit || change.path == "limit.evaluation";
  }
  for (const std::string& line :
       {check_data(experiment, folder, run, from, has_other_limit),
        maker_line(experiment, run, from)})
    if (!line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace sluice
