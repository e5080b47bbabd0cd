#include <cctype>

#include <fmt/format.h>

#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/results_table.h"
#include "experiments/report/sections/sections.h"
#include "experiments/report/sections/table_files.h"

namespace sluice::report {
namespace {

/// Notes name so many cells; of more the table tells.
constexpr std::size_t kMostNamed = 4;

std::string failures_of(const ReportInput& input) {
  std::string items;
  for (const StudyCell& cell : input.study.cells)
    for (const RunRecord& run : cell.runs)
      if (run.state == RunRecord::State::failed)
        items +=
            element("li", "",
                    escaped(fmt::format("{}, seed {}, failed: {}", cell.label,
                                        run.seed, run.error))) +
            "\n";
  return items.empty() ? "" : element("ul", "class=\"failures\"", items);
}

std::string notes_of(const Study& study, const std::vector<Column>& columns) {
  std::string notes =
      "Mean ± sample standard deviation over the runs that are done, or over "
      "(so many) of them. Bold: better than every other cell by more than one "
      "standard deviation of either; a cell with failed runs is never bold.";
  for (const Column& column : columns)
    if (!column.figure.note.empty()) {
      std::string note = column.figure.note;
      note.front() = static_cast<char>(std::toupper(note.front()));
      notes += " " + note + ".";
    }
  return element("p", "class=\"soft\"",
                 escaped(notes + " " + choice_note(study) + " " +
                         makers_note(study, kMostNamed) + " " +
                         sharing_note(study, columns, kMostNamed)));
}

}  // namespace

std::string legend(const ReportInput& input) {
  std::vector<ChartItem> items;
  for (std::size_t i = 0; i < input.study.cells.size(); ++i)
    items.push_back(
        {.label = input.study.cells[i].label, .style = input.styles[i]});
  return legend_of(items);
}

std::string cell_head(const ReportInput& input, std::size_t cell, bool has_link,
                      std::size_t rows) {
  const StudyCell& shown = input.study.cells[cell];
  std::string label = element("span", "", breakable(shown.label));
  if (has_link)
    label = element("a", fmt::format("href=\"#cell-{}\"", escaped(shown.id)),
                    label);
  return element("th", rows > 1 ? fmt::format("rowspan=\"{}\"", rows) : "",
                 element("span", "class=\"cell\"",
                         legend_mark(input.styles[cell]) + label));
}

std::string results_section(const ReportInput& input) {
  return results_table(input) + failures_of(input) +
         notes_of(input.study, input.columns);
}

}  // namespace sluice::report
