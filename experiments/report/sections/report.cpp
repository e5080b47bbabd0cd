#include "experiments/report/sections/report.h"

#include <filesystem>
#include <optional>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "experiments/report/charts/figures.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/page/page.h"
#include "experiments/report/sections/panels.h"
#include "experiments/report/sections/sections.h"
#include "experiments/report/sections/table_files.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"

namespace sluice::report {
namespace {

namespace fs = std::filesystem;

ReportInput input_of(const ReportOptions& options) {
  ReportInput input{.study = read_study(options.folders),
                    .only_numbers = options.only_numbers,
                    .target = options.target};
  for (const StudyCell& cell : input.study.cells) {
    ConfigFacts facts;
    if (cell.config() != nullptr && options.facts)
      facts = options.facts(*cell.config());
    input.work.push_back(facts.work);
    input.samples.push_back(std::move(facts.sample));
  }
  input.columns =
      columns_of(input.study, input.work, options.only_numbers, options.target);
  input.styles = styles_of(input.study);
  return input;
}

/// "5 cells, 15 runs: 14 done, 1 failed."
std::string lead_of(const Study& study) {
  using State = RunRecord::State;
  std::size_t runs = 0;
  for (const StudyCell& cell : study.cells) runs += cell.runs.size();
  std::string lead = fmt::format("{} cell{}, {} run{}", study.cells.size(),
                                 study.cells.size() == 1 ? "" : "s", runs,
                                 runs == 1 ? "" : "s");
  const auto add = [&](State state, const char* what) {
    int count = 0;
    for (const StudyCell& cell : study.cells) count += cell.count(state);
    if (count > 0) lead += fmt::format(", {} {}", count, what);
  };
  add(State::done, "done");
  add(State::failed, "failed");
  add(State::unfinished, "unfinished");
  add(State::absent, "not begun");
  lead += ".";
  if (constexpr int kStyles = kStyleColours * kStyleVariants;
      std::ssize(study.cells) > kStyles)
    lead += fmt::format(" Charts use each of their {} styles more than once.",
                        kStyles);
  if (study.repeats > 0)
    lead += fmt::format(
        " Left out: {} more of the same config and seed as another.",
        study.repeats);
  return lead;
}

/// A section on the best cells alone, which it says, or on all.
std::string of_best(const ReportInput& input,
                    const std::optional<ReportInput>& best,
                    std::string (*section)(const ReportInput&)) {
  if (!best || best->study.cells.size() == input.study.cells.size())
    return section(input);
  const std::string html = section(*best);
  if (html.empty()) return "";
  return element(
             "p", "class=\"soft\"",
             fmt::format("Of {} cells the {} best, as in the test curves.",
                         input.study.cells.size(), best->study.cells.size())) +
         html;
}

/// Section on the best cells, with that on all cells below a fold.
std::string of_best_first(const ReportInput& input,
                          const std::optional<ReportInput>& best,
                          std::string (*section)(const ReportInput&)) {
  std::string html = of_best(input, best, section);
  if (best && best->study.cells.size() < input.study.cells.size() &&
      !html.empty())
    html +=
        element("details", "",
                element("summary", "",
                        fmt::format("All {} cells", input.study.cells.size())) +
                    section(input));
  return html;
}

std::string html_of(const ReportInput& input) {
  const std::optional<ReportInput> best = best_of_many(input);
  return page_of(
      input.study.title, lead_of(input.study),
      {{"results", "Results", results_section(input)},
       {"axes", "Along the axes", axes_section(input)},
       {"curves", "Test curves", curves_section(input)},
       {"price", "The price of decoupling",
        of_best_first(input, best, price_section)},
       {"target", "The cost of a loss", target_section(input)},
       {"training", "Training loss of each block", training_section(input)},
       {"truth", "How true the gradients are", truth_section(input)},
       {"filters", "Filters of the first layer",
        of_best(input, best, filters_section)},
       {"staleness", "Staleness", staleness_section(input)},
       {"memory", "Memory", of_best(input, best, memory_section)},
       {"timeline", "Timeline", of_best(input, best, timeline_section)},
       {"repeat", "Configs, and how to repeat them", repeat_section(input)}});
}

/// Name of the files beside the page: "report" for "report.html".
std::string stem_of(const std::string& page) {
  const fs::path path(page);
  return (path.parent_path() / path.stem()).string();
}

std::vector<Chart> charts_of(const ReportInput& input) {
  std::vector<Chart> all = axis_charts(input);
  for (auto* charts_in :
       {panel_charts, test_charts, pareto_charts, target_charts})
    for (Chart& chart : charts_in(input)) all.push_back(std::move(chart));
  return all;
}

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(path, [&](std::ostream& file) { file << text; });
}

}  // namespace

ReportFiles write_report(const ReportOptions& options) {
  const std::string page = options.page.empty()
                               ? options.folders.at(0) + "/report.html"
                               : options.page;
  if (fs::path(page).extension() != ".html")
    throw UserError("--out {}: the name of a page ends with .html", page);
  const ReportInput input = input_of(options);
  const std::string stem = stem_of(page);
  ReportFiles files{.page = page,
                    .markdown = stem + ".md",
                    .table = stem + ".csv",
                    .runs = stem + "_runs.csv",
                    .figures = stem + "_figures"};
  write_text(files.page, html_of(input));
  write_text(files.markdown, markdown_of(input.study, input.columns));
  write_text(files.table, csv_of(input.study, input.columns));
  write_text(files.runs, csv_of_runs(input.study, input.columns));
  write_figures(files.figures, charts_of(input));
  return files;
}

}  // namespace sluice::report
