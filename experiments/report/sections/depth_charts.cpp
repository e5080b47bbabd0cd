#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/panels.h"
#include "experiments/report/sections/sections.h"
#include "experiments/report/study/statistics.h"

namespace sluice::report {
namespace {

struct DepthFigure {
  const char* name;
  const char* title;
  bool is_linear;  ///< cosines and shares have a largest value
};
constexpr std::array<DepthFigure, 3> kDepthFigures = {{
    {"cosine", "cosine, by layer", true},
    {"norm_ratio", "ratio of norms, by layer", false},
    {"sign_agreement", "agreement of signs, by layer", true},
}};
/// Most layers that the axis names one by one; for more, it has round numbers.
constexpr std::size_t kMostDepthTicks = 12;

double mean_over_turns(const RunSeries& series) {
  double sum = 0;
  for (const RunPoint& point : series) sum += point.value;
  return sum / static_cast<double>(series.size());
}

/// A figure by layer: the mean of each run.
std::map<int, std::vector<double>> means_by_layer(const StudyCell& cell,
                                                  const char* figure) {
  std::map<int, std::vector<double>> means;
  for (const RunRecord* run : cell.runs_to_draw()) {
    const auto found = run->layer_probes.find(figure);
    if (found == run->layer_probes.end()) continue;
    for (const auto& [layer, series] : found->second)
      means[layer].push_back(mean_over_turns(series));
  }
  return means;
}

}  // namespace

std::vector<Chart> depth_charts(const ReportInput& input) {
  std::vector<Chart> charts;
  for (const DepthFigure& figure : kDepthFigures) {
    Chart chart{.title = figure.title,
                .x_label = "layer",
                .has_marks = true,
                .is_linear = figure.is_linear,
                .has_even_ticks = true};
    std::set<double> layers;
    for (std::size_t i = 0; i < input.study.cells.size(); ++i) {
      const StudyCell& cell = input.study.cells[i];
      ChartItem item{.label = cell.label, .style = input.styles[i]};
      for (const auto& [layer, means] : means_by_layer(cell, figure.name)) {
        const Spread spread = spread_of(means);
        item.points.push_back(
            {.x = static_cast<double>(layer),
             .y = spread.mean,
             .y_off = std::isnan(spread.std) ? 0 : spread.std});
        layers.insert(item.points.back().x);
      }
      chart.items.push_back(std::move(item));
    }
    if (layers.empty()) continue;
    if (layers.size() <= kMostDepthTicks)
      chart.x_ticks.assign(layers.begin(), layers.end());
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::string truth_by_layer(const ReportInput& input) {
  const std::string charts = drawn_in_panels(input, depth_charts, false);
  if (charts.empty()) return "";
  return element("p", "class=\"soft\"",
                 "The same by layer, counted from 0: the mean over all "
                 "comparisons of a run.") +
         charts;
}

}  // namespace sluice::report
