#include "experiments/program/help/axes_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "experiments/planner/method_axes.h"

namespace sluice {
namespace {

constexpr std::size_t kAxesColumns = 7;
using AxesRow = std::array<std::string, kAxesColumns>;

/// A number as text: "0.75"; empty for nothing.
std::string axes_figure(double figure) {
  return figure == 0 ? "" : fmt::format("{:.3g}", figure);
}

std::string staleness_figure(const planner::MethodAxes& axes) {
  if (axes.updates == 0 && axes.batches == 0) return "";
  return fmt::format("{} ({})", axes.updates, axes.batches);
}

AxesRow axes_row(std::string_view name, const MethodExample& example) {
  const planner::MethodAxes axes =
      planner::method_axes(example_experiment(example, kAxesShape, true));
  const std::string computation = planner::computation_text(axes);
  return {fmt::format("`{}`", name),
          computation == "none" ? "" : computation,
          axes_figure(axes.boundary_bytes),
          axes_figure(axes.replica_bytes),
          axes_figure(axes.copies),
          staleness_figure(axes),
          axes.apart == 0 ? "" : fmt::format("{}", axes.apart)};
}

std::string axes_line(const AxesRow& row,
                      const std::array<std::size_t, kAxesColumns>& widths) {
  std::string line = "|";
  for (std::size_t i = 0; i < row.size(); ++i)
    line += fmt::format(" {:<{}} |", row[i], widths[i]);
  return line + "\n";
}

std::string axes_lines(const std::vector<AxesRow>& rows) {
  std::array<std::size_t, kAxesColumns> widths = {};
  for (const AxesRow& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max({widths[i], row[i].size(), std::size_t{3}});
  AxesRow rule;
  for (std::size_t i = 0; i < rule.size(); ++i)
    rule[i] = std::string(widths[i], '-');
  std::string text = axes_line(rows.front(), widths) + axes_line(rule, widths);
  for (std::size_t i = 1; i < rows.size(); ++i)
    text += axes_line(rows[i], widths);
  return text;
}

}  // namespace

std::string axes_table() {
  std::vector<AxesRow> rows;
  rows.push_back(AxesRow{"method", "more than a forward and a backward",
                         "bytes at boundaries", "bytes between replicas",
                         "weights", "staleness", "apart"});
  for (const PolicyRow& row : policies())
    if (row.make.page != nullptr)
      rows.push_back(axes_row(row.name, example_of(row)));
  for (const PresetRow& row : presets())
    rows.push_back(axes_row(row.name, example_of(row)));
  return axes_lines(rows);
}

}  // namespace sluice
