#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/page/filters.h"
#include "experiments/report/sections/sections.h"
#include "experiments/runs/folder/run_folder.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"

namespace sluice::report {
namespace {

/// Pixels of the page that a tile has at least.
constexpr std::int64_t kLeastTile = 44;

/// The run's best checkpoint, or else its last; empty: it has none.
std::string shown_checkpoint(const RunRecord& run) {
  const std::string folder = checkpoints_of_run(run.folder);
  const std::string best = folder + "/best";
  if (std::filesystem::exists(best)) return best;
  const auto found = find_checkpoints(folder);
  return found.empty() ? "" : found.rbegin()->second;
}

std::string picture_html(const FilterPicture& picture,
                         const std::string& label) {
  const std::int64_t scale = std::max<std::int64_t>(
      1, (kLeastTile + picture.tile_width - 1) / picture.tile_width);
  return fmt::format(
      "<img class=\"first-layer\" width=\"{}\" height=\"{}\" alt=\"{} filters "
      "of the first layer of {}\" src=\"{}\"/>",
      scale * picture.width, scale * picture.height, picture.shown,
      escaped(label), data_uri(picture));
}

/// What is shown of a run, which has a checkpoint.
std::string filters_of(const RunRecord& run, const std::string& checkpoint,
                       const std::vector<std::int64_t>& sample,
                       const std::string& label) {
  for (const auto& [name, weights] : first_weights(checkpoint)) {
    const std::optional<FilterPicture> picture = picture_of(weights, sample);
    if (!picture) continue;
    const std::string which =
        picture->shown < picture->filters
            ? fmt::format("the first {} of {}", picture->shown,
                          picture->filters)
            : fmt::format("all {}", picture->filters);
    return element(
               "p", "class=\"soft\"",
               escaped(fmt::format("{}, {}, seed {}", name, which, run.seed))) +
           element("div", "class=\"scroll\"", picture_html(*picture, label));
  }
  return "";
}

/// Filters of the cell's first run that has a checkpoint.
std::string cell_filters(const StudyCell& cell,
                         const std::vector<std::int64_t>& sample) {
  for (const RunRecord* run : cell.runs_to_draw()) {
    const std::string checkpoint = shown_checkpoint(*run);
    if (checkpoint.empty()) continue;
    try {
      return filters_of(*run, checkpoint, sample, cell.label);
    } catch (const UserError& error) {
      // A run that goes on removes its older checkpoints meanwhile.
      return element("p", "class=\"soft\"", escaped(error.what()));
    }
  }
  return "";
}

}  // namespace

std::string filters_section(const ReportInput& input) {
  std::string folds;
  for (std::size_t i = 0; i < input.study.cells.size(); ++i) {
    const StudyCell& cell = input.study.cells[i];
    const std::string shown = cell_filters(cell, input.samples[i]);
    if (shown.empty()) continue;
    folds +=
        element("details", folds.empty() ? "open=\"open\"" : "",
                element("summary", "",
                        legend_mark(input.styles[i]) + escaped(cell.label)) +
                    shown) +
        "\n";
  }
  if (folds.empty()) return "";
  return element(
             "p", "class=\"soft\"",
             "What the first layer looks for, in a run&#39;s best checkpoint "
             "or else its last: the weights of each unit as a picture, grey "
             "where they are 0, as bright or dark at the largest as can be.") +
         folds;
}

}  // namespace sluice::report
