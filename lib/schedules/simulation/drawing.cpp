#include "lib/schedules/simulation/drawing.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {
namespace {

using Cells = std::vector<std::string>;
using SeatActions = std::vector<const TimedAction*>;

std::int64_t column_of(double time, double unit) {
  return std::llround(std::floor(time / unit + 1e-9));
}

/// Long actions fill their columns, so that one sees how long a block is busy;
/// an instant one belongs to what ended where it starts.
void draw_action(const TimedAction& timed, double unit, Cells& row) {
  const bool instant = timed.end <= timed.start;
  const auto start = static_cast<std::size_t>(column_of(timed.start, unit));
  const std::size_t first = instant && start > 0 ? start - 1 : start;
  const auto end = static_cast<std::size_t>(
      std::llround(std::ceil(timed.end / unit - 1e-9)));
  row.resize(std::max({row.size(), first + 1, end}));
  row[first] += (row[first].empty() ? "" : " ") + to_text(timed.action);
  if (instant) return;
  for (std::size_t column = first + 1; column < end; ++column)
    row[column] = "-";
}

Cells row_of(const SeatActions& actions, double unit) {
  Cells row;
  for (const TimedAction* timed : actions) draw_action(*timed, unit, row);
  return row;
}

}  // namespace

/// Rows are made twice, and never all at once: those of thousands of seats
/// would take more memory than all else.
std::string draw_timeline(const std::vector<TimedAction>& timeline,
                          const SeatNames& names, double unit) {
  const int seats = names.seats();
  std::vector<SeatActions> actions(static_cast<std::size_t>(seats));
  for (const TimedAction& timed : timeline)
    by_block(actions, timed.seat).push_back(&timed);
  std::size_t columns = 0;
  std::size_t width = 2;
  for (const SeatActions& mine : actions) {
    const Cells row = row_of(mine, unit);
    columns = std::max(columns, row.size());
    for (const std::string& cell : row) width = std::max(width, cell.size());
  }
  std::string text;
  for (int seat = seats; seat >= 1; --seat) {
    Cells row = row_of(by_block(actions, seat), unit);
    row.resize(columns);
    std::string line = fmt::format("{:<{}}|", names.short_of(seat),
                                   names.replicas == 1 ? 9 : 11);
    for (const std::string& cell : row)
      line += fmt::format(" {:<{}}", cell.empty() ? "." : cell, width);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string list_actions(const std::vector<std::vector<Action>>& actions) {
  std::string text;
  for (const std::vector<Action>& row : actions) text += to_text(row) + "\n";
  return text;
}

}  // namespace sluice
