#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "experiments/config/files/toml.h"
#include "experiments/report/charts/bands.h"
#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/panels.h"
#include "experiments/report/sections/sections.h"

namespace sluice::report {
namespace {

/// Most points of a curve that is logged at every turn.
constexpr std::int64_t kMostPoints = 80;
/// A test curve with more evaluations has no marks.
constexpr std::size_t kMostMarks = 25;

using SeriesOf = std::function<const RunSeries*(const RunRecord&)>;

std::vector<BandPoint> band(const StudyCell& cell, const SeriesOf& series_of,
                            std::int64_t most_points) {
  std::vector<const RunSeries*> series;
  for (const RunRecord* run : cell.runs_to_draw())
    if (const RunSeries* found = series_of(*run)) series.push_back(found);
  return band_of(series, most_points);
}

/// The quantity that curves are drawn against.
struct Abscissa {
  std::string name;   ///< "turns"
  std::string label;  ///< "turns", or the unit
  /// What there is after so many turns; nothing: it isn't known for this cell,
  /// whatever their number.
  std::function<std::optional<double>(std::size_t cell, double turns)> after =
      [](std::size_t, double turns) { return turns; };
  bool is_time = false;

  bool is_known(std::size_t cell) const {
    return is_time || after(cell, 0).has_value();
  }
  double at(const BandPoint& point, std::size_t cell) const {
    return is_time ? point.time : after(cell, point.turn).value();
  }
};

/// y is multiplied by `scale`.
Chart chart_of(const ReportInput& input, const SeriesOf& series_of,
               const Abscissa& against, double scale,
               std::int64_t most_points) {
  Chart chart{.x_label = against.label, .from_zero = true};
  std::size_t longest = 0;
  for (std::size_t i = 0; i < input.study.cells.size(); ++i) {
    if (!against.is_known(i)) continue;
    ChartItem item{.label = input.study.cells[i].label,
                   .style = input.styles[i]};
    for (const BandPoint& point :
         band(input.study.cells[i], series_of, most_points))
      item.points.push_back({.x = against.at(point, i),
                             .y = scale * point.spread.mean,
                             .y_off = std::isnan(point.spread.std)
                                          ? 0
                                          : scale * point.spread.std});
    longest = std::max(longest, item.points.size());
    chart.items.push_back(std::move(item));
  }
  chart.has_marks = longest <= kMostMarks;
  return chart;
}

double largest_x(const Chart& chart) {
  double largest = 0;
  for (const ChartItem& item : chart.items)
    for (const ChartPoint& point : item.points)
      largest = std::max(largest, point.x);
  return largest;
}

void rescale_x(Chart& chart, const Scale& scale) {
  for (ChartItem& item : chart.items)
    for (ChartPoint& point : item.points) point.x /= scale.divisor;
}

/// Virtual seconds of a turn, the mean over the runs; 0: no virtual clock.
double virtual_seconds_of_turn(const StudyCell& cell) {
  double seconds = 0;
  double turns = 0;
  for (const RunRecord* run : cell.runs_to_draw()) {
    if (!run->summary || !run->summary->virtual_seconds) continue;
    seconds += *run->summary->virtual_seconds;
    turns += static_cast<double>(run->turns);
  }
  return turns > 0 ? seconds / turns : 0;
}

bool has_virtual_time(const ReportInput& input) {
  return !input.only_numbers &&
         std::any_of(input.study.cells.begin(), input.study.cells.end(),
                     [](const StudyCell& cell) {
                       return virtual_seconds_of_turn(cell) > 0;
                     });
}

std::optional<double> in_virtual_time(const StudyCell& cell, double turns) {
  const double seconds = virtual_seconds_of_turn(cell);
  if (seconds == 0) return std::nullopt;
  return seconds * turns;
}

std::int64_t longest_run(const StudyCell& cell) {
  std::int64_t turns = 0;
  for (const RunRecord& run : cell.runs) turns = std::max(turns, run.turns);
  return turns;
}

/// Work after a mean number of turns, rounded down. Nothing for a cell that
/// does none of that work: there is no curve to draw.
std::optional<double> work_after(const ReportInput& input, std::size_t cell,
                                 WorkInTurns of_turns, double turns) {
  const std::optional<TurnWork>& work = input.work[cell];
  if (!work) return std::nullopt;
  const auto all = of_turns(*work, longest_run(input.study.cells[cell]));
  if (!all || *all == 0) return std::nullopt;
  return of_turns(*work, static_cast<std::int64_t>(turns));
}

/// What test results are drawn against: turns, and what is known beside.
std::vector<Abscissa> abscissas(const ReportInput& input) {
  std::vector<Abscissa> all = {{.name = "turns", .label = "turns"}};
  if (!input.only_numbers)
    all.push_back({.name = "time", .label = "s", .is_time = true});
  if (has_virtual_time(input))
    all.push_back({.name = "virtual_time",
                   .label = "virtual s",
                   .after = [&input](std::size_t i, double turns) {
                     return in_virtual_time(input.study.cells[i], turns);
                   }});
  const auto amount = [&](const char* name, const char* unit,
                          WorkInTurns of_turns) {
    all.push_back({.name = name,
                   .label = unit,
                   .after = [&input, of_turns](std::size_t i, double turns) {
                     return work_after(input, i, of_turns, turns);
                   }});
  };
  const bool any = std::any_of(input.work.begin(), input.work.end(),
                               [](const auto& work) { return !!work; });
  if (any) amount("flops", "FLOP", flops_in);
  if (any) amount("bytes", "B", bytes_sent_in);
  return all;
}

/// "turns", "time, s", "virtual time, s", "computed, GFLOP", "sent, MiB".
void finish_x(Chart& chart) {
  const std::string unit = chart.x_label;
  const double largest = largest_x(chart);
  if (unit == "s") chart.x_label = "time, s";
  if (unit == "virtual s") chart.x_label = "virtual time, s";
  if (unit != "FLOP" && unit != "B") return;
  const Scale scale =
      unit == "B" ? binary_scale(largest) : decimal_scale(largest);
  rescale_x(chart, scale);
  chart.x_label = fmt::format("{}, {}{}", unit == "B" ? "sent" : "computed",
                              scale.prefix, unit);
}

std::set<int> blocks_in(
    const ReportInput& input,
    const std::function<const std::map<int, RunSeries>*(const RunRecord&)>&
        of) {
  std::set<int> blocks;
  for (const StudyCell& cell : input.study.cells)
    for (const RunRecord& run : cell.runs)
      if (const auto* found = of(run))
        for (const auto& [block, series] : *found) blocks.insert(block);
  return blocks;
}

/// A chart for each block.
std::vector<Chart> charts_by_block(
    const ReportInput& input, const std::string& title, bool is_linear,
    const std::function<const std::map<int, RunSeries>*(const RunRecord&)>&
        of) {
  std::vector<Chart> charts;
  for (const int block : blocks_in(input, of)) {
    const auto series_of = [&](const RunRecord& run) -> const RunSeries* {
      const auto* blocks = of(run);
      if (blocks == nullptr || !blocks->contains(block)) return nullptr;
      return &blocks->at(block);
    };
    Chart chart = chart_of(input, series_of,
                           {.name = "turns", .label = "turns"}, 1, kMostPoints);
    chart.title = fmt::format("{}, block {}", title, block);
    chart.is_linear = is_linear;
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<Chart> training_charts(const ReportInput& input) {
  return charts_by_block(
      input, "training loss", false,
      [](const RunRecord& run) { return &run.training_loss; });
}

std::vector<Chart> truth_charts(const ReportInput& input) {
  std::vector<Chart> charts;
  for (const auto& [figure, title] :
       {std::pair{"cosine", "cosine"},
        std::pair{"norm_ratio", "ratio of norms"},
        std::pair{"sign_agreement", "agreement of signs"}}) {
    const std::string name = figure;
    // Cosines and shares have a largest value, ratios have none.
    for (Chart& chart : charts_by_block(
             input, title, name != "norm_ratio",
             [&name](const RunRecord& run) -> const std::map<int, RunSeries>* {
               const auto found = run.probes.find(name);
               return found == run.probes.end() ? nullptr : &found->second;
             }))
      charts.push_back(std::move(chart));
  }
  return charts;
}

/// Charts of the validation split against turns alone: the test curves show the
/// rest.
std::vector<Chart> validation_charts(const ReportInput& input) {
  std::vector<Chart> charts;
  for (const bool is_accuracy : {true, false}) {
    Chart chart = chart_of(
        input,
        [&](const RunRecord& run) {
          return is_accuracy ? &run.validation_accuracy : &run.validation_loss;
        },
        {.name = "turns", .label = "turns"}, is_accuracy ? 100 : 1, 0);
    chart.name = is_accuracy ? "validation_accuracy" : "validation_loss";
    chart.title = is_accuracy ? "validation accuracy, %" : "validation loss";
    if (largest_x(chart) > 0) charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace

std::string grid_of(const std::vector<Chart>& charts) {
  std::string drawn;
  for (const Chart& chart : charts) drawn += draw(chart);
  return drawn.empty() ? "" : element("div", "class=\"charts\"", drawn);
}

std::vector<Chart> test_charts(const ReportInput& input) {
  std::vector<Chart> charts;
  for (const bool is_accuracy : {true, false})
    for (const Abscissa& against : abscissas(input)) {
      Chart chart = chart_of(
          input,
          [&](const RunRecord& run) {
            return is_accuracy ? &run.accuracy : &run.loss;
          },
          against, is_accuracy ? 100 : 1, 0);
      chart.name = fmt::format("{}_by_{}", is_accuracy ? "accuracy" : "loss",
                               against.name);
      chart.title = is_accuracy ? "test accuracy, %" : "test loss";
      finish_x(chart);
      if (largest_x(chart) > 0) charts.push_back(std::move(chart));
    }
  for (Chart& chart : validation_charts(input))
    charts.push_back(std::move(chart));
  return charts;
}

std::vector<Chart> panel_charts(const ReportInput& input) {
  std::vector<Chart> charts;
  for (auto& multiples : charts_of_panels(panels_of(input), test_charts))
    for (Chart& chart : multiples) charts.push_back(std::move(chart));
  return charts;
}

namespace {

/// The tables [virtual] of the cells, each with the cells that have it.
std::string costs_text(const ReportInput& input) {
  if (!has_virtual_time(input)) return "";
  std::map<std::string, std::string> cells;
  for (const StudyCell& cell : input.study.cells) {
    if (virtual_seconds_of_turn(cell) == 0 || cell.config() == nullptr)
      continue;
    const ConfigNode* costs = cell.config()->find("virtual");
    std::string& of = cells[costs == nullptr ? "" : to_toml(*costs)];
    of += (of.empty() ? "" : "; ") + cell.label;
  }
  std::string html;
  for (const auto& [costs, of] : cells)
    html += element(
        "details", "",
        element("summary", "", escaped("virtual time by these costs: " + of)) +
            element("pre", "", escaped(costs)));
  return html;
}

}  // namespace

std::string curves_section(const ReportInput& input) {
  const std::string charts = drawn_in_panels(input, test_charts, true);
  if (charts.empty()) return "";
  return element("p", "class=\"soft\"",
                 "Lines are means over seeds, bands one standard deviation to "
                 "either side.") +
         charts + costs_text(input);
}

std::string training_section(const ReportInput& input) {
  const std::string charts = drawn_in_panels(input, training_charts, false);
  if (charts.empty()) return "";
  return element(
             "p", "class=\"soft\"",
             "Each block on the loss that it learns from: the network&#39;s "
             "for the last one, that of its auxiliary head for others. A "
             "block that learns from gradients alone has none.") +
         charts;
}

std::string truth_section(const ReportInput& input) {
  const std::string charts = drawn_in_panels(input, truth_charts, false);
  if (charts.empty()) return "";
  return element("p", "class=\"soft\"",
                 "What each block applied, compared with back-propagation of "
                 "the same batch through all blocks: 1 is the same.") +
         charts + truth_by_layer(input);
}

}  // namespace sluice::report
