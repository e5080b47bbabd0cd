#include "experiments/report/sections/panels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "experiments/report/charts/axis_lines.h"
#include "experiments/report/charts/html.h"

namespace sluice::report {
namespace {

/// Most lines that a reader can tell apart in one picture.
constexpr std::size_t kMostTogether = 8;

template <class T>
std::vector<T> chosen_from(const std::vector<T>& all,
                           const std::vector<std::size_t>& places) {
  std::vector<T> chosen;
  for (const std::size_t place : places)
    if (place < all.size()) chosen.push_back(all[place]);
  return chosen;
}

/// Input for a page with these cells alone.
ReportInput part_of_input(const ReportInput& whole,
                          const std::vector<std::size_t>& cells) {
  // The records of the other cells, which are many, are not copied.
  ReportInput part{.study = {.title = whole.study.title,
                             .axes = whole.study.axes,
                             .cells = chosen_from(whole.study.cells, cells)},
                   .columns = whole.columns,
                   .styles = chosen_from(whole.styles, cells),
                   .work = chosen_from(whole.work, cells),
                   .samples = chosen_from(whole.samples, cells),
                   .only_numbers = whole.only_numbers,
                   .target = whole.target};
  for (Column& column : part.columns) {
    column.values = chosen_from(column.values, cells);
    column.spreads = chosen_from(column.spreads, cells);
    column.censored = chosen_from(column.censored, cells);
    column.winner.reset();
  }
  return part;
}

std::string title_of_panel(std::size_t blocks) {
  if (blocks == 0) return "blocks unknown";
  return fmt::format("{} block{}", blocks, blocks == 1 ? "" : "s");
}

/// A style for each line, in the colour of its cell with the most blocks: with
/// a single one every method is back-propagation.
std::map<std::string, CellStyle> styles_of_lines(
    const ReportInput& input, const std::vector<BestCell>& best) {
  std::map<std::string, BestCell> deepest;
  for (const BestCell& one : best)
    if (BestCell& known = deepest.try_emplace(one.line, one).first->second;
        one.blocks > known.blocks)
      known = one;
  StyleBook book;
  std::map<std::string, CellStyle> styles;
  for (const BestCell& one : best)
    if (!styles.contains(one.line))
      styles[one.line] =
          book.next(input.styles[deepest.at(one.line).cell].colour);
  return styles;
}

/// Title and abscissa, which tell charts that are to be compared.
using ChartKind = std::pair<std::string, std::string>;

ChartKind kind_of(const Chart& chart) {
  return {chart.title, chart.x_label};
}

/// Corners of what the points of charts of a kind take up, with deviations.
void add_room(const Chart& chart, std::vector<ChartPoint>& room) {
  for (const ChartItem& item : chart.items)
    for (const ChartPoint& point : item.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      if (room.empty()) room = {point, point};
      ChartPoint& low = room.front();
      ChartPoint& high = room.back();
      low.x = std::min(low.x, point.x);
      low.y = std::min(low.y, point.y);
      high.x = std::max(high.x, point.x);
      high.y = std::max(high.y, point.y + point.y_off);
    }
}

std::string title_in_panel(const Panel& panel, const std::string& title) {
  return panel.title.empty() ? title
                             : fmt::format("{}: {}", panel.title, title);
}

/// Sets what shows to which line each item belongs, and in which panel.
void name_for_panel(const Panel& panel, Chart& chart) {
  for (ChartItem& item : chart.items)
    for (std::size_t i = 0; i < panel.lines.size(); ++i)
      if (item.label == panel.input.study.cells[i].label)
        item.entry = panel.lines[i];
  chart.title = title_in_panel(panel, chart.title);
  if (!chart.name.empty()) chart.name += "_best" + panel.name;
}

/// Lines of a panel have different names: where labels don't tell all, a cell's
/// whole label is it.
std::vector<BestCell> best_with_own_lines(const ReportInput& input) {
  std::vector<BestCell> best = best_cells(input.study, input.columns);
  std::set<std::pair<std::size_t, std::string>> taken;
  for (BestCell& one : best)
    if (!taken.emplace(one.blocks, one.line).second)
      one.line = input.study.cells[one.cell].label;
  return best;
}

std::string legend_of_lines(const std::vector<Panel>& panels) {
  std::vector<ChartItem> items;
  for (const Panel& panel : panels)
    for (std::size_t i = 0; i < panel.lines.size(); ++i)
      if (std::none_of(items.begin(), items.end(), [&](const ChartItem& item) {
            return item.label == panel.lines[i];
          }))
        items.push_back(
            {.label = panel.lines[i], .style = panel.input.styles[i]});
  return legend_of(items);
}

std::string text_of_panels(const ReportInput& input) {
  const std::string split = split_to_choose_by(input.columns);
  return element(
      "p", "class=\"soft\"",
      fmt::format(
          "Of cells that differ in numbers alone (a learning rate, say) the "
          "one with the best mean on the {} split; point at a line to see "
          "which. Charts of a kind have the same axes.{}",
          split,
          split == "test" ? " It was chosen by what is shown here, so it looks "
                            "better than it is: set data.validation."
                          : ""));
}

/// Charts of a kind, each in the column of its panel; a panel without one keeps
/// its column empty. Empty without any.
std::string row_of_panels(const std::vector<Panel>& panels,
                          const std::vector<Chart>& charts) {
  std::string row;
  bool has_any = false;
  for (const Panel& panel : panels) {
    const auto own =
        std::find_if(charts.begin(), charts.end(), [&](const Chart& chart) {
          return chart.title.starts_with(title_in_panel(panel, ""));
        });
    const std::string drawn = own == charts.end() ? "" : draw(*own);
    has_any = has_any || !drawn.empty();
    row += drawn.empty() ? element("div", "class=\"missing\"", "") : drawn;
  }
  if (!has_any) return "";
  return element("div",
                 fmt::format("class=\"charts multiples\" style=\"--panels:{}\"",
                             panels.size()),
                 row);
}

}  // namespace

std::vector<Panel> panels_of(const ReportInput& input) {
  if (input.study.cells.size() <= kMostTogether) return {};
  const std::vector<BestCell> best = best_with_own_lines(input);
  std::map<std::size_t, std::vector<BestCell>> by_blocks;
  for (const BestCell& one : best) by_blocks[one.blocks].push_back(one);
  if (by_blocks.size() == 1 && best.size() == input.study.cells.size())
    return {};
  const auto styles = styles_of_lines(input, best);
  std::vector<Panel> panels;
  for (const auto& [blocks, cells] : by_blocks) {
    std::vector<std::size_t> places;
    for (const BestCell& one : cells) places.push_back(one.cell);
    Panel panel{.input = part_of_input(input, places)};
    if (by_blocks.size() > 1) {
      panel.title = title_of_panel(blocks);
      panel.name = fmt::format("_{}_blocks", blocks);
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      panel.lines.push_back(cells[i].line);
      panel.input.styles[i] = styles.at(cells[i].line);
    }
    panels.push_back(std::move(panel));
  }
  return panels;
}

std::optional<ReportInput> best_of_many(const ReportInput& input) {
  if (input.study.cells.size() <= kMostTogether) return std::nullopt;
  std::vector<std::size_t> places;
  for (const BestCell& one : best_cells(input.study, input.columns))
    places.push_back(one.cell);
  return part_of_input(input, places);
}

std::vector<std::vector<Chart>> charts_of_panels(
    const std::vector<Panel>& panels, const ChartsOf& charts_of) {
  std::vector<ChartKind> order;
  std::map<ChartKind, std::vector<ChartPoint>> room;
  std::map<ChartKind, std::vector<Chart>> by_kind;
  for (const Panel& panel : panels)
    for (Chart& chart : charts_of(panel.input)) {
      const ChartKind kind = kind_of(chart);
      if (!by_kind.contains(kind)) order.push_back(kind);
      add_room(chart, room[kind]);
      name_for_panel(panel, chart);
      by_kind[kind].push_back(std::move(chart));
    }
  std::vector<std::vector<Chart>> all;
  for (const ChartKind& kind : order) {
    for (Chart& chart : by_kind[kind]) chart.room = room[kind];
    all.push_back(std::move(by_kind[kind]));
  }
  return all;
}

std::string drawn_in_panels(const ReportInput& input, const ChartsOf& charts_of,
                            bool has_all) {
  const std::vector<Panel> panels = panels_of(input);
  const auto together = [&] {
    const std::string charts = grid_of(charts_of(input));
    return charts.empty() ? "" : with_legend(legend(input), charts);
  };
  if (panels.empty()) return together();
  std::string charts;
  for (const auto& multiples : charts_of_panels(panels, charts_of))
    charts += row_of_panels(panels, multiples);
  if (charts.empty()) return "";
  std::string html =
      text_of_panels(input) + with_legend(legend_of_lines(panels), charts);
  if (has_all)
    html +=
        element("details", "",
                element("summary", "",
                        fmt::format("All {} cells", input.study.cells.size())) +
                    together());
  return html;
}

}  // namespace sluice::report
