// Section on the costs of coming to a loss, against the time that it takes: the
// figure of Laskin et al. 2020 (arXiv:2012.03837).
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/sections.h"
#include "experiments/report/study/price.h"

namespace sluice::report {
namespace {

/// The first of these columns that there is; nullptr: none.
const Column* first_of(const ReportInput& input,
                       std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const Column* column = find_column(input.columns, name)) return column;
  return nullptr;
}

/// Column of the cost: operations, or samples where operations are unknown.
const Column* cost_in(const ReportInput& input) {
  return first_of(input, {"flops_to_target", "samples_to_target"});
}

/// Columns of times: as operations that must follow each other, and by a clock.
std::vector<const Column*> times_in(const ReportInput& input) {
  std::vector<const Column*> times;
  for (const Column* time :
       {first_of(input, {"sequential_flops_to_target"}),
        first_of(input, {"virtual_seconds_to_target", "seconds_to_target"})})
    if (time != nullptr) times.push_back(time);
  return times;
}

std::vector<bool> target_front(const ReportInput& input, const Column& cost,
                               const Column& time) {
  std::vector<Objectives> all;
  for (std::size_t i = 0; i < input.study.cells.size(); ++i)
    all.push_back({cost.mean(i), time.mean(i)});
  return pareto_front(all);
}

double target_deviation(const Column& column, std::size_t cell) {
  const double std = column.spreads[cell].std * column.figure.scale;
  return std::isfinite(std) ? std : 0;
}

Chart time_against(const ReportInput& input, const Column& cost,
                   const Column& time) {
  const std::vector<bool> front = target_front(input, cost, time);
  Chart chart{
      .name = fmt::format("{}_against_{}", time.figure.name, cost.figure.name),
      .title = time.figure.heading(),
      .x_label = cost.figure.heading(),
      .is_scatter = true,
      .has_log_axes = true};
  for (std::size_t i = 0; i < input.study.cells.size(); ++i)
    chart.items.push_back({.label = input.study.cells[i].label,
                           .style = input.styles[i],
                           .points = {{.x = cost.mean(i) * cost.figure.scale,
                                       .y = time.mean(i) * time.figure.scale,
                                       .y_off = target_deviation(time, i),
                                       .x_off = target_deviation(cost, i)}},
                           .is_ringed = front[i]});
  return chart;
}

/// "Front of (computed to 0.5, time to 0.5): A; B."
std::string front_names(const ReportInput& input, const Column& cost,
                        const Column& time) {
  const std::vector<bool> front = target_front(input, cost, time);
  std::string names;
  for (std::size_t i = 0; i < front.size(); ++i)
    if (front[i])
      names += (names.empty() ? "" : "; ") + input.study.cells[i].label;
  return fmt::format(" Front of ({}, {}): {}.", cost.figure.title,
                     time.figure.title, names.empty() ? "nobody" : names);
}

}  // namespace

std::vector<Chart> target_charts(const ReportInput& input) {
  const Column* cost = cost_in(input);
  if (cost == nullptr || input.study.cells.size() < 2) return {};
  std::vector<Chart> charts;
  for (const Column* time : times_in(input))
    if (Chart chart = time_against(input, *cost, *time);
        !drawing_of(chart).empty())
      charts.push_back(std::move(chart));
  return charts;
}

std::string target_section(const ReportInput& input) {
  if (!input.target) return "";
  std::string text = fmt::format(
      "What the runs took until the first evaluation {}; it is as exact as "
      "evaluations are frequent. A cell of which a run never came there has no "
      "place here. Ringed: no other cell costs less and takes less time, by "
      "means.",
      input.target->condition());
  const std::vector<Chart> charts = target_charts(input);
  if (charts.empty())
    return element("p", "class=\"soft\"",
                   escaped(text + " There are not two cells to compare, or "
                                  "none came there."));
  for (const Column* time : times_in(input))
    text += front_names(input, *cost_in(input), *time);
  return element("p", "class=\"soft\"", escaped(text)) +
         with_legend(legend(input), grid_of(charts));
}

}  // namespace sluice::report
