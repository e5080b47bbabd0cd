#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/sections.h"
#include "experiments/report/study/price.h"

namespace sluice::report {
namespace {

/// Final figures of the runs of a cell that are done and know the figure.
SeedFigures by_seed(const ReportInput& input, const Column& column,
                    std::size_t cell) {
  SeedFigures values;
  const auto& runs = input.study.cells[cell].runs;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (const auto value = column.values[cell][i])
      values.emplace(runs[i].seed, *value);
  return values;
}

/// "+0.35 ± 0.20 (n = 3)" in percentage points.
std::string difference_text(const ReportInput& input, const Column& accuracy,
                            std::size_t cell, std::size_t baseline) {
  const Difference paired = paired_difference(
      by_seed(input, accuracy, cell), by_seed(input, accuracy, baseline));
  if (paired.n > 1)
    return fmt::format("{:+.2f} ± {:.2f} (n = {})", 100 * paired.mean,
                       100 * paired.half, paired.n);
  const double of_means = accuracy.mean(cell) - accuracy.mean(baseline);
  if (!std::isfinite(of_means)) return "-";
  return paired.n == 1 ? fmt::format("{:+.2f} (one run)", 100 * paired.mean)
                       : fmt::format("{:+.2f} (other seeds)", 100 * of_means);
}

std::string ratio_text(const Column& column, std::size_t cell,
                       std::size_t baseline) {
  const double ratio = column.mean(cell) / column.mean(baseline);
  return std::isfinite(ratio) ? fmt::format("{:.2f} ×", ratio) : "-";
}

/// The columns that are shown as ratios to the baseline's.
std::vector<const Column*> ratios_in(const ReportInput& input) {
  std::vector<const Column*> found;
  for (const char* name : {"seconds", "virtual_seconds", "peak_memory_bytes",
                           "flops", "bytes_sent"})
    if (const Column* column = find_column(input.columns, name))
      found.push_back(column);
  return found;
}

bool all_know(const ReportInput& input, const Column& column) {
  const Column* accuracy = find_column(input.columns, "test_accuracy");
  for (std::size_t i = 0; i < column.spreads.size(); ++i)
    if (accuracy->spreads[i].n > 0 && column.spreads[i].n == 0) return false;
  return true;
}

/// What accuracy is paid for with: time and memory, as far as anybody knows
/// them. Simulated time goes before measured time: a user who simulates
/// machines wants to know what they would take.
std::vector<const Column*> costs_in(const ReportInput& input) {
  const Column* time = find_column(input.columns, "virtual_seconds");
  if (time == nullptr || !all_know(input, *time))
    time = find_column(input.columns, "seconds");
  std::vector<const Column*> costs;
  for (const Column* cost :
       {time, find_column(input.columns, "peak_memory_bytes")})
    if (cost != nullptr) costs.push_back(cost);
  return costs;
}

std::vector<bool> front_of(const ReportInput& input,
                           const std::vector<const Column*>& costs) {
  const Column* accuracy = find_column(input.columns, "test_accuracy");
  std::vector<Objectives> all;
  for (std::size_t i = 0; i < input.study.cells.size(); ++i) {
    Objectives objectives = {-accuracy->mean(i)};
    for (const Column* cost : costs) objectives.push_back(cost->mean(i));
    all.push_back(std::move(objectives));
  }
  return pareto_front(all);
}

std::string price_table(const ReportInput& input) {
  const std::vector<const Column*> ratios = ratios_in(input);
  const Column* accuracy = find_column(input.columns, "test_accuracy");
  std::string rows;
  for (std::size_t i = 0; i < input.study.cells.size(); ++i) {
    const auto baseline = baseline_of(input.study, input.columns, i);
    if (!baseline || accuracy->spreads[i].n == 0) continue;
    std::string cells =
        cell_head(input, i) +
        element("td", "class=\"text\"",
                escaped(input.study.cells[*baseline].label)) +
        element("td", "", difference_text(input, *accuracy, i, *baseline));
    for (const Column* column : ratios)
      cells += element("td", "", ratio_text(*column, i, *baseline));
    rows += element("tr", "", cells) + "\n";
  }
  if (rows.empty()) return "";
  std::string heads = element("th", "", "cell") +
                      element("th", "class=\"text\"", "against") +
                      element("th", "", "accuracy, points");
  for (const Column* column : ratios)
    heads += element("th", "", escaped(column->figure.title));
  return element("div", "class=\"scroll\"",
                 element("table", "",
                         element("thead", "", element("tr", "", heads)) +
                             element("tbody", "", rows)));
}

double known_or_zero(double value) {
  return std::isfinite(value) ? value : 0;
}

Chart accuracy_against(const ReportInput& input, const Column& cost,
                       const std::vector<bool>& front) {
  const Column* accuracy = find_column(input.columns, "test_accuracy");
  Chart chart{.name = "accuracy_against_" + cost.figure.name,
              .title = "test accuracy, %",
              .x_label = cost.figure.heading(),
              .is_scatter = true};
  for (std::size_t i = 0; i < input.study.cells.size(); ++i) {
    const Spread& y = accuracy->spreads[i];
    const Spread& x = cost.spreads[i];
    chart.items.push_back(
        {.label = input.study.cells[i].label,
         .style = input.styles[i],
         .points = {{.x = x.mean * cost.figure.scale,
                     .y = 100 * y.mean,
                     .y_off = 100 * known_or_zero(y.std),
                     .x_off = cost.figure.scale * known_or_zero(x.std)}},
         .is_ringed = front[i]});
  }
  return chart;
}

bool has_front(const ReportInput& input) {
  return !input.only_numbers && input.study.cells.size() >= 2;
}

/// "Ringed: on the Pareto front of (test accuracy, time), by means: A; B."
std::string front_text(const ReportInput& input) {
  const std::vector<const Column*> costs = costs_in(input);
  const std::vector<bool> front = front_of(input, costs);
  std::string objectives = "test accuracy";
  for (const Column* cost : costs) objectives += ", " + cost->figure.title;
  std::string names;
  for (std::size_t i = 0; i < front.size(); ++i)
    if (front[i])
      names += (names.empty() ? "" : "; ") + input.study.cells[i].label;
  return fmt::format("Ringed: on the Pareto front of ({}), by means: {}.",
                     objectives, names.empty() ? "nobody" : names);
}

std::string front_part(const ReportInput& input) {
  const std::string charts = grid_of(pareto_charts(input));
  if (charts.empty()) return "";
  return element("p", "class=\"soft\"", escaped(front_text(input))) +
         with_legend(legend(input), charts);
}

}  // namespace

std::vector<Chart> pareto_charts(const ReportInput& input) {
  if (!has_front(input)) return {};
  const std::vector<const Column*> costs = costs_in(input);
  const std::vector<bool> front = front_of(input, costs);
  std::vector<Chart> charts;
  for (const Column* cost : costs)
    if (Chart chart = accuracy_against(input, *cost, front);
        !drawing_of(chart).empty())
      charts.push_back(std::move(chart));
  return charts;
}

std::string price_section(const ReportInput& input) {
  const std::string table = price_table(input);
  std::string html;
  if (!table.empty())
    html =
        element("p", "class=\"soft\"",
                "Against back-propagation with the same other axes, or else "
                "the one of the same data and model (and with as many blocks, "
                "if there is one) that ended best on the " +
                    split_to_choose_by(input.columns) +
                    " split. Accuracy: the mean of the differences seed by "
                    "seed, ± half of its 95 % interval (Student's t). Where "
                    "that interval has 0 in it, the runs show no difference. "
                    "Ratios are of means, and below 1 cost less.") +
        table;
  return html + front_part(input);
}

}  // namespace sluice::report
