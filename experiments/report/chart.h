#pragma once

#include <string>
#include <vector>

#include "experiments/report/methods.h"
#include "experiments/report/scale.h"

namespace sluice {

/// A place in a chart, with what it may be off by (0: unknown or nothing).
struct ChartPoint {
  double x = 0;
  double y = 0;
  double y_off = 0;
  double x_off = 0;
};

/// What a chart shows of a cell.
struct ChartItem {
  std::string label = {};
  CellStyle style = {};
  std::vector<ChartPoint> points = {};
  bool is_ringed = false;  ///< in a scatter chart: it stands out
};

struct Chart {
  std::string title = {};    ///< what is drawn upwards, with its unit
  std::string x_label = {};  ///< with its unit
  std::vector<ChartItem> items = {};
  bool has_marks = false;  ///< few points: each is marked
  bool from_zero = false;  ///< x begins there
};

/// As SVG, with lines and bands. y is logarithmic where values differ by more
/// than an order of magnitude and all are positive. Empty without any point.
std::string line_chart(const Chart& chart);

/// A mark for each point, with bars for what it may be off by.
std::string scatter_chart(const Chart& chart);

/// A line with the item's mark, for a legend.
std::string legend_mark(const CellStyle& style);

}  // namespace sluice
