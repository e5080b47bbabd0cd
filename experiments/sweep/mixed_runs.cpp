#include "experiments/sweep/mixed_runs.h"

#include <vector>

#include <fmt/format.h>

#include "experiments/runs/folder/data_identity.h"
#include "experiments/runs/folder/maker.h"

namespace sluice::sweep {
namespace {

bool says_who(const SweepRun& run) {
  return run.is_done() && !run.is_row;
}

}  // namespace

std::string mixed_in(const SweepRuns& runs, std::size_t cell) {
  std::vector<Maker> makers;
  nlohmann::ordered_json first;
  std::string other_data;
  for (const SweepRun& run : runs.all()) {
    if (run.cell != cell || !says_who(run)) continue;
    for (Maker& maker : makers_in(run.state.provenance))
      makers.push_back(std::move(maker));
    auto data = without_order(data_in(run.state.provenance));
    if (other_data.empty()) other_data = data_difference(first, data);
    if (first.is_null()) first = std::move(data);
  }
  const std::string text = mixed(makers);
  if (other_data.empty()) return text;
  return fmt::format("{}{}data: {}", text, text.empty() ? "" : "; ",
                     other_data);
}

OutdatedRuns outdated_in(const SweepRuns& runs) {
  OutdatedRuns outdated;
  for (const SweepRun& run : runs.all()) {
    if (!says_who(run)) continue;
    const std::string found = data_difference(
        data_in(run.state.provenance), data_identity(runs.experiment_of(run)));
    if (found.empty()) continue;
    ++outdated.count;
    if (outdated.difference.empty()) outdated.difference = found;
  }
  return outdated;
}

std::string notes_on_mixed(const SweepRuns& runs) {
  std::string notes;
  for (std::size_t cell = 0; cell < runs.plan().cells.size(); ++cell)
    if (const std::string what = mixed_in(runs, cell); !what.empty())
      notes += fmt::format(
          "* {}: its runs are not of one making ({}): the row pools them\n",
          runs.plan().cells[cell].cell.label, what);
  if (const OutdatedRuns outdated = outdated_in(runs); outdated.count > 0)
    notes += fmt::format(
        "The data have changed: {} of the runs {} done on others than are "
        "there now ({}); bring those back, or --again does these anew\n",
        outdated.count, outdated.count == 1 ? "was" : "were",
        outdated.difference);
  return notes;
}

}  // namespace sluice::sweep
