#include "experiments/runs/folder/evaluated_data.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/manual/resume_changes.h"
#include "experiments/runs/folder/data_identity.h"
#include "experiments/runs/folder/provenance.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// The first difference from the run's data; empty: none that is known.
std::string other_data(const Experiment& experiment, const std::string& config,
                       const std::string& run_file, bool has_overrides) {
  for (const KeyChange& change :
       changed_keys(read_config_file(config), experiment))
    if (change.path.starts_with("data.") &&
        change.row.on_resume == ResumeEffect::refused)
      return values_text(change);
  auto before = without_order(data_in(read_provenance(run_file)));
  if (has_overrides) before = without_evaluated(std::move(before));
  return data_difference(before, data_identity(experiment));
}

}  // namespace

void check_evaluated_data(const Experiment& experiment,
                          const std::string& config_of_its_run,
                          const EvaluatedData& named) {
  namespace fs = std::filesystem;
  if (config_of_its_run.empty() || !experiment.data) return;
  const std::string folder = fs::path(config_of_its_run).parent_path().string();
  const std::string run_file = folder + "/run.json";
  if (!fs::exists(run_file)) return;
  const std::string found =
      other_data(experiment, config_of_its_run, run_file, named.has_overrides);
  if (found.empty()) return;
  if (named.is_meant()) {
    fmt::print(stderr,
               "sluice: {}: evaluated on other data than it was trained with: "
               "{}\n",
               folder, found);
    return;
  }
  throw UserError(
      "{}: its {} split would be of other data than it was trained with: {}; "
      "bring those back, or evaluate on these all the same with --config {}",
      folder, named.split, found, config_of_its_run);
}

}  // namespace sluice
