#include <cctype>

#include <fmt/format.h>

#include "experiments/report/chart.h"
#include "experiments/report/html.h"
#include "experiments/report/sections.h"
#include "experiments/report/table_files.h"

namespace sluice::report {
namespace {

std::string head_of(const std::vector<Column>& columns) {
  std::string cells =
      element("th", "", "cell") + element("th", "class=\"text\"", "runs");
  for (const Column& column : columns)
    cells += element("th", "", escaped(column.figure.heading()));
  return element("thead", "", element("tr", "", cells));
}

/// Marks a row whose runs are not all done.
const char* class_of(const StudyCell& cell) {
  if (cell.count(RunRecord::State::failed) > 0) return "class=\"failed\"";
  const auto all = static_cast<int>(cell.runs.size());
  return cell.count(RunRecord::State::done) < all ? "class=\"open\"" : "";
}

std::string row_of(const ReportInput& input, std::size_t index) {
  const StudyCell& cell = input.study.cells[index];
  std::string cells = cell_head(input, index, true);
  cells += element("td", "class=\"text runs\"", escaped(runs_text(cell)));
  for (const Column& column : input.columns) {
    std::string text = escaped(column.text(index));
    const auto n = text.find(" (");
    if (n != text.npos)
      text = text.substr(0, n) + element("span", "class=\"n\"", text.substr(n));
    cells += element("td", "",
                     column.winner == index ? element("b", "", text) : text);
  }
  return element("tr", class_of(cell), cells) + "\n";
}

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
      "Mean ± sample standard deviation (runs). Bold: better than every other "
      "cell by more than one standard deviation of either; a cell with failed "
      "runs is never bold.";
  for (const Column& column : columns)
    if (!column.figure.note.empty()) {
      std::string note = column.figure.note;
      note.front() = static_cast<char>(std::toupper(note.front()));
      notes += " " + note + ".";
    }
  return element("p", "class=\"soft\"",
                 escaped(notes + " " + choice_note(study)));
}

}  // namespace

std::string legend(const ReportInput& input) {
  std::vector<ChartItem> items;
  for (std::size_t i = 0; i < input.study.cells.size(); ++i)
    items.push_back(
        {.label = input.study.cells[i].label, .style = input.styles[i]});
  return legend_of(items);
}

std::string cell_head(const ReportInput& input, std::size_t cell,
                      bool has_link) {
  const StudyCell& shown = input.study.cells[cell];
  std::string label = element("span", "", breakable(shown.label));
  if (has_link)
    label = element("a", fmt::format("href=\"#cell-{}\"", escaped(shown.id)),
                    label);
  return element("th", "",
                 element("span", "class=\"cell\"",
                         legend_mark(input.styles[cell]) + label));
}

std::string results_section(const ReportInput& input) {
  std::string rows;
  for (std::size_t i = 0; i < input.study.cells.size(); ++i)
    rows += row_of(input, i);
  const std::string table =
      element("table", "", head_of(input.columns) + element("tbody", "", rows));
  return element("div", "class=\"scroll\"", table) + failures_of(input) +
         notes_of(input.study, input.columns);
}

}  // namespace sluice::report
