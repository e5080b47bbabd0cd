#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "experiments/report/charts/axis_lines.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/sections.h"

namespace sluice::report {
namespace {

std::string last_part(const std::string& key) {
  const auto dot = key.rfind('.');
  return dot == key.npos ? key : key.substr(dot + 1);
}

Chart chart_along(const ReportInput& input, const Column& column,
                  std::size_t axis) {
  const double scale = column.figure.scale;
  const std::string& key = input.study.axes[axis];
  Chart chart{.name = fmt::format("{}_by_{}", column.figure.name, key),
              .title = column.figure.heading(),
              .x_label = key,
              .has_marks = true};
  StyleBook book;  // cells have a style for each number, lines have one
  std::set<double> places;
  const Column& chooser = column_to_choose_by(input.columns, column);
  for (const AxisLine& line : lines_along(input.study, chooser, axis)) {
    const int colour = input.styles[line.points.back().cell].colour;
    ChartItem item{.label = line.label, .style = book.next(colour)};
    for (const AxisPoint& point : line.points) {
      const Spread& spread = column.spreads[point.cell];
      item.points.push_back(
          {.x = point.x,
           .y = scale * spread.mean,
           .y_off = std::isfinite(spread.std) ? scale * spread.std : 0});
      places.insert(point.x);
    }
    chart.items.push_back(std::move(item));
  }
  constexpr std::size_t kMostTicks = 6;
  if (places.size() <= kMostTicks)
    chart.x_ticks.assign(places.begin(), places.end());
  return chart;
}

/// Says over which other axes the lines along this one take the best value;
/// empty: over none.
std::string choice_text(const ReportInput& input, std::size_t axis) {
  const Study& study = input.study;
  std::string names;
  for (const std::size_t other : chosen_along(study, axis))
    if (other != axis)
      names += (names.empty() ? "" : ", ") + last_part(study.axes[other]);
  if (names.empty()) return "";
  const std::string split = split_to_choose_by(input.columns);
  const std::string text = fmt::format(
      "Each place shows the cell with the best mean on the {} "
      "split, of all values of {}.{}",
      split, names,
      split == "test" ? " It was chosen by what is shown here, so "
                        "it looks better than it is: set "
                        "data.validation."
                      : "");
  return element("p", "class=\"soft\"", escaped(text));
}

std::vector<Chart> charts_along(const ReportInput& input, std::size_t axis) {
  std::vector<Chart> charts;
  for (const char* name : {"test_accuracy", "test_loss"})
    if (const Column* column = find_column(input.columns, name))
      if (Chart chart = chart_along(input, *column, axis); !chart.items.empty())
        charts.push_back(std::move(chart));
  return charts;
}

}  // namespace

std::vector<Chart> axis_charts(const ReportInput& input) {
  std::vector<Chart> all;
  for (const std::size_t axis : number_axes(input.study))
    for (Chart& chart : charts_along(input, axis))
      all.push_back(std::move(chart));
  return all;
}

std::string axes_section(const ReportInput& input) {
  std::string html;
  for (const std::size_t axis : number_axes(input.study))
    if (const auto charts = charts_along(input, axis); !charts.empty())
      html += element("h3", "", escaped(input.study.axes[axis])) +
              choice_text(input, axis) +
              with_legend(legend_of(charts.front().items), grid_of(charts));
  if (html.empty()) return "";
  return element("p", "class=\"soft\"",
                 "What the runs ended with: means over seeds, bands one "
                 "standard deviation to either side.") +
         html;
}

}  // namespace sluice::report
