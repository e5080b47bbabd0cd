#include "experiments/report/charts/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "experiments/report/charts/chart_key.h"
#include "experiments/report/charts/html.h"

namespace sluice::report {
namespace {

constexpr double kWidth = kChartWidth;
constexpr double kHeight = kChartHeight;
constexpr double kLeft = 56;
constexpr double kRight = 16;
constexpr double kTop = 34;
constexpr double kBottom = 48;
constexpr int kTicksAcross = 5;
constexpr int kTicksUp = 6;
constexpr double kLogRatio = 20;
constexpr double kLogRatioOfTicks = 5;

/// A map from values to places in the drawing.
struct Axis {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool is_log = false;
  double begin = 0;
  double end = 0;

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return !(low <= high); }
  /// Values outside are drawn on the frame.
  double place(double value) const {
    value = std::clamp(value, low, high);
    const double part = is_log ? std::log(value / low) / std::log(high / low)
                               : (value - low) / (high - low);
    return begin + part * (end - begin);
  }
  std::vector<Tick> ticks(int count) const {
    if (is_log)
      if (std::vector<Tick> ticks = log_ticks(low, high); ticks.size() > 1)
        return ticks;
    return linear_ticks(low, high, count);
  }
};

void widen(Axis& axis) {
  if (axis.is_log) {
    axis.low /= 1.1;
    axis.high *= 1.1;
    return;
  }
  const double largest = std::max(std::abs(axis.low), std::abs(axis.high));
  double span = axis.high - axis.low;
  if (span < 1e-6 * largest) span = 0;  // rounding, not a difference
  const double more = span > 0 ? 0.04 * span : std::max(0.5, 0.05 * largest);
  // The axis doesn't go below 0 for values that can't be negative.
  const double least = axis.low >= 0 ? 0 : axis.low - more;
  axis.low = std::max(axis.low - more, least);
  axis.high += more;
}

struct Axes {
  Axis x;
  Axis y;
};

bool spans(double ratio, double low, double high) {
  return low > 0 && high > ratio * low;
}

/// A deviation may reach below zero, where the axis can't.
void make_log(double least, Axis& axis) {
  axis.is_log = true;
  axis.low = std::max(axis.low, least / 2);
}

Axes axes_of(const Chart& chart) {
  Axes axes;
  double least = std::numeric_limits<double>::infinity();
  double leftmost = std::numeric_limits<double>::infinity();
  for (const ChartItem& item : chart.items)
    for (const ChartPoint& point : item.points) {
      if (!std::isfinite(point.y) || !std::isfinite(point.x)) continue;
      axes.x.include(point.x - point.x_off);
      axes.x.include(point.x + point.x_off);
      axes.y.include(point.y - point.y_off);
      axes.y.include(point.y + point.y_off);
      least = std::min(least, point.y);
      leftmost = std::min(leftmost, point.x);
    }
  if (axes.x.is_empty()) return axes;
  for (const ChartPoint& point : chart.room) {
    axes.x.include(point.x);
    axes.y.include(point.y);
    least = std::min(least, point.y);
    leftmost = std::min(leftmost, point.x);
  }
  axes.x.is_log = !chart.x_ticks.empty() && !chart.has_even_ticks &&
                  spans(kLogRatioOfTicks, axes.x.low, axes.x.high);
  if (!chart.is_scatter && !chart.is_linear &&
      spans(kLogRatio, least, axes.y.high))
    make_log(least, axes.y);
  if (chart.has_log_axes && least > 0 && leftmost > 0) {
    make_log(leftmost, axes.x);
    make_log(least, axes.y);
  }
  if (chart.from_zero) axes.x.low = std::min(axes.x.low, 0.0);
  widen(axes.y);
  if (!chart.from_zero || axes.x.low == axes.x.high) widen(axes.x);
  axes.x.begin = kLeft;
  axes.x.end = kWidth - kRight;
  axes.y.begin = kHeight - kBottom;
  axes.y.end = kTop;
  return axes;
}

std::string text_at(double x, double y, const char* attributes,
                    const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>", x, y,
                     attributes, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2,
                 const char* attributes) {
  return fmt::format(
      "<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" {}/>", x1,
      y1, x2, y2, attributes);
}

std::vector<Tick> x_ticks_of(const Chart& chart, const Axis& axis) {
  if (chart.x_ticks.empty()) return axis.ticks(kTicksAcross);
  std::vector<Tick> ticks;
  for (const double at : chart.x_ticks)
    ticks.push_back({at, fmt::format("{:g}", at)});
  return ticks;
}

std::string frame_of(const Chart& chart, const Axes& axes) {
  std::string out = text_at(8, 18, "class=\"chart-title\"", chart.title);
  for (const Tick& tick : axes.y.ticks(kTicksUp)) {
    const double y = axes.y.place(tick.at);
    out += line(kLeft, y, kWidth - kRight, y, "class=\"grid\"");
    out += text_at(kLeft - 6, y + 4, "class=\"tick\" text-anchor=\"end\"",
                   tick.text);
  }
  for (const Tick& tick : x_ticks_of(chart, axes.x)) {
    const double x = axes.x.place(tick.at);
    out +=
        line(x, kHeight - kBottom, x, kHeight - kBottom + 4, "class=\"axis\"");
    out += text_at(x, kHeight - kBottom + 18,
                   "class=\"tick\" text-anchor=\"middle\"", tick.text);
  }
  out += line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom,
              "class=\"axis\"");
  return out + text_at((kLeft + kWidth - kRight) / 2, kHeight - 10,
                       "class=\"axis-label\" text-anchor=\"middle\"",
                       chart.x_label);
}

bool is_drawn(const ChartPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

std::string places_of(const std::vector<ChartPoint>& points, const Axes& axes,
                      double side) {
  std::string places;
  for (const ChartPoint& point : points)
    places += fmt::format("{}{:.2f},{:.2f}", places.empty() ? "" : " ",
                          axes.x.place(point.x),
                          axes.y.place(point.y + side * point.y_off));
  return places;
}

/// A line of many points is marked where only its mark tells it from another,
/// and there at a few of them.
bool is_marked(const CellStyle& style, std::size_t point, std::size_t points,
               bool has_marks) {
  constexpr std::size_t kFew = 6;
  if (has_marks || points == 1) return true;
  if (style.variant < kStyleDashes) return false;
  return point % std::max<std::size_t>(1, points / kFew) == 0;
}

std::string line_of(const ChartItem& item, const Axes& axes, bool has_marks) {
  std::vector<ChartPoint> points;
  std::copy_if(item.points.begin(), item.points.end(),
               std::back_inserter(points), is_drawn);
  if (points.empty()) return "";
  std::string out;
  const bool has_band =
      std::any_of(points.begin(), points.end(),
                  [](const ChartPoint& point) { return point.y_off > 0; });
  if (has_band) {
    std::vector<ChartPoint> back(points.rbegin(), points.rend());
    out += fmt::format("<polygon class=\"band c{}\" points=\"{} {}\"/>",
                       item.style.colour, places_of(points, axes, 1),
                       places_of(back, axes, -1));
  }
  out += fmt::format(
      "<polyline class=\"line c{}\" stroke-dasharray=\"{}\" points=\"{}\">"
      "<title>{}</title></polyline>",
      item.style.colour, dashes_of(item.style), places_of(points, axes, 0),
      escaped(item.label));
  for (std::size_t i = 0; i < points.size(); ++i)
    if (const ChartPoint& point = points[i];
        is_marked(item.style, i, points.size(), has_marks))
      out += mark_at(
          axes.x.place(point.x), axes.y.place(point.y), item.style,
          fmt::format("{}: {:.4g} at {:.4g}", item.label, point.y, point.x));
  return out;
}

/// SVG of an item of the chart.
std::string series_of(const ChartItem& item, const std::string& drawn) {
  if (drawn.empty()) return "";
  return fmt::format(
      "<g class=\"series\" data-entry=\"{}\" data-label=\"{}\">{}</g>",
      escaped(item.entry.empty() ? item.label : item.entry),
      escaped(item.label), drawn);
}

std::string lines_of(const Chart& chart, const Axes& axes) {
  std::string out;
  for (const ChartItem& item : chart.items)
    out += series_of(item, line_of(item, axes, chart.has_marks));
  return out;
}

/// A point with bars for what it may be off by.
std::string point_of(const ChartItem& item, const ChartPoint& point,
                     const Axes& axes) {
  const double x = axes.x.place(point.x);
  const double y = axes.y.place(point.y);
  const std::string bar = fmt::format("class=\"bar c{}\"", item.style.colour);
  std::string out;
  if (point.y_off > 0)
    out += line(x, axes.y.place(point.y - point.y_off), x,
                axes.y.place(point.y + point.y_off), bar.c_str());
  if (point.x_off > 0)
    out += line(axes.x.place(point.x - point.x_off), y,
                axes.x.place(point.x + point.x_off), y, bar.c_str());
  if (item.is_ringed)
    out += fmt::format(
        "<circle class=\"ring\" cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"9\"/>", x, y);
  return out + mark_at(x, y, item.style,
                       fmt::format("{}: {:.4g} at {:.4g}", item.label, point.y,
                                   point.x));
}

std::string points_of(const Chart& chart, const Axes& axes) {
  std::string out;
  for (const ChartItem& item : chart.items) {
    std::string drawn;
    for (const ChartPoint& point : item.points)
      if (is_drawn(point)) drawn += point_of(item, point, axes);
    out += series_of(item, drawn);
  }
  return out;
}

std::string told_axis(const Axis& axis) {
  return fmt::format("{:.8g} {:.8g} {:d} {:g} {:g}", axis.low, axis.high,
                     axis.is_log, axis.begin, axis.end);
}

}  // namespace

std::string drawing_of(const Chart& chart) {
  const Axes axes = axes_of(chart);
  if (axes.x.is_empty()) return "";
  return frame_of(chart, axes) +
         (chart.is_scatter ? points_of(chart, axes) : lines_of(chart, axes));
}

std::string draw(const Chart& chart) {
  const std::string inside = drawing_of(chart);
  if (inside.empty()) return "";
  const Axes axes = axes_of(chart);
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\" data-x=\"{}\" data-y=\"{}\">{}</svg>\n",
      kChartWidth, kChartHeight,
      escaped(chart.title + " against " + chart.x_label), told_axis(axes.x),
      told_axis(axes.y), inside);
}

}  // namespace sluice::report
