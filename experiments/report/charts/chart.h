#pragma once

#include <string>
#include <vector>

#include "experiments/report/study/methods.h"
#include "experiments/report/study/scale.h"

namespace sluice::report {

/// A place in a chart, with what it may be off by (0: unknown or nothing).
struct ChartPoint {
  double x = 0;
  double y = 0;
  double y_off = 0;
  double x_off = 0;
};

/// Points, label and style of a cell in a chart.
struct ChartItem {
  std::string label = {};
  CellStyle style = {};
  std::vector<ChartPoint> points = {};
  bool is_ringed = false;  ///< in a scatter chart: it stands out
  /// The entry of the legend that stands for it; empty: that of its label.
  std::string entry = {};
};

struct Chart {
  std::string name = {};     ///< "loss_by_turns", of a file; unique in a report
  std::string title = {};    ///< what is drawn upwards, with its unit
  std::string x_label = {};  ///< with its unit
  std::vector<ChartItem> items = {};
  bool is_scatter = false;  ///< a mark for each point, with bars; or else lines
  bool has_marks = false;   ///< few points: each is marked on its line
  bool from_zero = false;   ///< x begins there
  bool has_log_axes = false;  ///< both, where all values are positive
  bool is_linear = false;     ///< upwards, however much its values differ
  /// Places on the x axis that have a tick; empty: round numbers.
  std::vector<double> x_ticks = {};
  bool has_even_ticks = false;  ///< as far apart as they are: x is linear
  /// Places that its axes have room for, beside those of its own points: of
  /// charts that are to be compared.
  std::vector<ChartPoint> room = {};
};

/// Size of a chart's drawing, in its own units: the page scales it.
constexpr int kChartWidth = 440;
constexpr int kChartHeight = 290;

/// As SVG, with what the page's script (charts.js) needs to know: the axes
/// in data-x and data-y ("low high is-log begin end", the latter in units of
/// the drawing), and for each item a group with the entry of its legend in
/// data-entry and its label in data-label. Axes are logarithmic where all
/// values are positive and differ much: y of lines by more than 20 times, x
/// with ticks of its own by more than 5 times; or where Chart::has_log_axes
/// asks for it. Empty without any point.
std::string draw(const Chart& chart);

/// The picture that `draw` makes, without the <svg> around it.
std::string drawing_of(const Chart& chart);

/// A line with the item's mark, for a legend, within kKeyWidth x kKeyHeight.
constexpr int kKeyWidth = 34;
constexpr int kKeyHeight = 14;
std::string key_drawing(const CellStyle& style);

/// Mark of a legend as an <svg> of HTML.
std::string legend_mark(const CellStyle& style);

/// A list of the items, in HTML.
std::string legend_of(const std::vector<ChartItem>& items);

/// A legend and the charts that it is for: a click on an entry hides its items
/// in these.
std::string with_legend(const std::string& legend, const std::string& charts);

}  // namespace sluice::report
