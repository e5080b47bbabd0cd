#include "experiments/report/charts/chart_key.h"

#include <array>
#include <initializer_list>

#include <fmt/format.h>

#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"

namespace sluice::report {
namespace {

/// By CellStyle::variant, as are the fills of marks in chart_style.cpp; when
/// all are used, they come again with the mark of another shape.
constexpr std::array<const char*, kStyleDashes> kDashes = {"", "6 3", "1.5 3",
                                                           "8 3 1.5 3", "3 5"};

}  // namespace

const char* dashes_of(const CellStyle& style) {
  return kDashes.at(static_cast<std::size_t>(style.variant) % kDashes.size());
}

std::string mark_at(double x, double y, const CellStyle& style,
                    const std::string& title) {
  constexpr double kRadius = 4;
  const auto polygon = [&](std::initializer_list<ChartPoint> corners) {
    std::string points;
    for (const ChartPoint& corner : corners)
      points += fmt::format("{}{:.2f},{:.2f}", points.empty() ? "" : " ",
                            x + kRadius * corner.x, y + kRadius * corner.y);
    return fmt::format("<polygon points=\"{}\"", points);
  };
  std::string shape;
  switch ((style.colour + style.variant / kStyleDashes) % kStyleMarks) {
    case 1:
      shape = polygon({{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}});
      break;
    case 2:
      shape = polygon({{0, -1.2}, {1.1, .9}, {-1.1, .9}});
      break;
    case 3:
      shape = polygon({{0, -1.3}, {1.2, 0}, {0, 1.3}, {-1.2, 0}});
      break;
    case 4:
      shape = polygon({{0, 1.2}, {1.1, -.9}, {-1.1, -.9}});
      break;
    case 5:
      shape = polygon({{-.4, -1.2},
                       {.4, -1.2},
                       {.4, -.4},
                       {1.2, -.4},
                       {1.2, .4},
                       {.4, .4},
                       {.4, 1.2},
                       {-.4, 1.2},
                       {-.4, .4},
                       {-1.2, .4},
                       {-1.2, -.4},
                       {-.4, -.4}});
      break;
    default:
      shape = fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{}\"", x, y,
                          kRadius * 0.95);
  }
  const std::string tag =
      fmt::format("{} class=\"mark c{} v{}\"", shape, style.colour,
                  style.variant % kStyleDashes);
  if (title.empty()) return tag + "/>";
  const char* name = shape.starts_with("<circle") ? "circle" : "polygon";
  return fmt::format("{}><title>{}</title></{}>", tag, escaped(title), name);
}

std::string key_drawing(const CellStyle& style) {
  return fmt::format(
      "<line class=\"line c{}\" stroke-dasharray=\"{}\" x1=\"1\" y1=\"7\" "
      "x2=\"33\" y2=\"7\"/>{}",
      style.colour, dashes_of(style), mark_at(17, 7, style, ""));
}

std::string legend_mark(const CellStyle& style) {
  return fmt::format(
      "<svg class=\"key\" viewBox=\"0 0 {} {}\" aria-hidden=\"true\">{}</svg>",
      kKeyWidth, kKeyHeight, key_drawing(style));
}

std::string legend_of(const std::vector<ChartItem>& items) {
  std::string entries;
  for (const ChartItem& item : items)
    entries +=
        element("li", fmt::format("data-entry=\"{}\"", escaped(item.label)),
                legend_mark(item.style) + escaped(item.label)) +
        "\n";
  return element("ul", "class=\"legend\"", entries);
}

std::string with_legend(const std::string& legend, const std::string& charts) {
  return element("div", "class=\"group\"", legend + charts);
}

}  // namespace sluice::report
