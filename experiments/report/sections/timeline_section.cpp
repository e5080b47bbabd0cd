#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/sections.h"
#include "experiments/report/study/scale.h"
#include "experiments/runs/sinks/trace_file.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice::report {
namespace {

constexpr std::int64_t kTurnsShown = 6;
constexpr double kLanesWidth = 1120;
constexpr double kLanesLeft = 64;
constexpr double kLanesRight = 16;
constexpr double kLanesTop = 8;
constexpr double kLane = 40;
constexpr double kBox = 24;
constexpr double kFoot = 44;
/// Width of a letter of an action's name.
constexpr double kLetter = 8;

/// Timelines have one scale, except one that would become too small.
constexpr double kMostShrunk = 4;

struct Kind {
  std::string_view category;
  int shade;
  bool is_dark;  ///< light letters on it, in light mode
};
constexpr std::array<Kind, 5> kKinds = {{{"forward", 3, false},
                                         {"backward", 1, true},
                                         {"update", 0, true},
                                         {"evaluate", 5, false},
                                         {"wait", 6, false}}};

int shade_of(const std::string& category) {
  for (const Kind& kind : kKinds)
    if (kind.category == category) return kind.shade;
  return 4;  // learning, checkpoints
}

std::map<int, double> lanes_of(const TraceFile& trace) {
  std::map<int, double> lanes;
  for (const TracedAction& action : trace.actions) lanes[action.block] = 0;
  double top = kLanesTop;
  // The last block on top, as it is drawn elsewhere.
  for (auto lane = lanes.rbegin(); lane != lanes.rend(); ++lane) {
    lane->second = top;
    top += kLane;
  }
  return lanes;
}

double end_of(const TraceFile& trace) {
  double end = 0;
  for (const TracedAction& action : trace.actions)
    end = std::max(end, action.end);
  return end;
}

double place(double seconds, double end) {
  return kLanesLeft + (kLanesWidth - kLanesLeft - kLanesRight) * seconds / end;
}

std::string box_of(const TracedAction& action, double top, double end) {
  const double x = place(action.start, end);
  const double width = std::max(1.0, place(action.end, end) - x);
  std::string out = fmt::format(
      "<rect class=\"s{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{}\" rx=\"2\"><title>{}: {:.4g} s to {:.4g} s</title></rect>",
      shade_of(action.category), x, top, std::max(1.0, width - 0.6), kBox,
      escaped(action.name), action.start, action.end);
  if (width > kLetter * static_cast<double>(action.name.size()) + 4)
    out += fmt::format(
        "<text class=\"on-s{}\" x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"middle\">{}</text>",
        shade_of(action.category), x + width / 2, top + 17,
        escaped(action.name));
  return out;
}

/// An arrow from the edge of the sender's box to that of the receiver's.
std::string arrow_of(const TracedMessage& message,
                     const std::map<int, double>& lanes, double end) {
  const auto from = lanes.find(message.from);
  const auto to = lanes.find(message.to);
  if (from == lanes.end() || to == lanes.end() || message.from == message.to)
    return "";
  const bool goes_down = to->second > from->second;
  return fmt::format(
      "<line class=\"arrow\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" "
      "y2=\"{:.1f}\"/>",
      place(message.sent, end), from->second + (goes_down ? kBox : 0),
      place(message.taken, end), to->second + (goes_down ? 0 : kBox));
}

std::string axis_of(double end, double y) {
  std::string out;
  for (const Tick& tick : linear_ticks(0, end, 8))
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" "
        "y2=\"{2:.1f}\"/><text class=\"tick\" x=\"{0:.1f}\" y=\"{3:.1f}\" "
        "text-anchor=\"middle\">{4}</text>",
        place(tick.at, end), kLanesTop, y, y + 16, tick.text);
  return out + fmt::format(
                   "<text class=\"axis-label\" x=\"{:.1f}\" y=\"{:.1f}\" "
                   "text-anchor=\"middle\">time, s</text>",
                   (kLanesLeft + kLanesWidth - kLanesRight) / 2, y + 34);
}

std::string drawing_of(const TraceFile& trace, double end,
                       const SeatNames& names) {
  const std::map<int, double> lanes = lanes_of(trace);
  const double bottom = kLanesTop + kLane * static_cast<double>(lanes.size());
  std::string inside = axis_of(end, bottom);
  for (const auto& [block, top] : lanes)
    inside += fmt::format(
        "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}"
        "</text>",
        kLanesLeft - 8, top + 17, names.short_of(block));
  for (const TracedMessage& message : trace.messages)
    inside += arrow_of(message, lanes, end);
  for (const TracedAction& action : trace.actions)
    inside += box_of(action, lanes.at(action.block), end);
  return fmt::format(
      "<svg class=\"timeline\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
      "role=\"img\" aria-label=\"timeline\">{2}</svg>",
      kLanesWidth, bottom + kFoot, inside);
}

/// Path of the trace of the first run that is done and has one; else empty.
std::string trace_of(const StudyCell& cell) {
  for (const RunRecord& run : cell.runs) {
    std::string path = run.folder + "/trace.json";
    if (run.is_done() && std::filesystem::exists(path)) return path;
  }
  return "";
}

std::string kinds_legend() {
  std::string items;
  const auto add = [&](int shade, std::string_view text) {
    items += element(
        "li", "",
        fmt::format(
            "<svg width=\"14\" height=\"14\" aria-hidden=\"true\"><rect "
            "class=\"s{}\" width=\"14\" height=\"14\"/></svg>{}",
            shade, text));
  };
  for (const Kind& kind : kKinds) add(kind.shade, kind.category);
  add(4, "other");
  return element("ul", "class=\"legend\"", items);
}

SeatNames seats_of(const StudyCell& cell) {
  return {std::max(1, static_cast<int>(cell.count_of_blocks())),
          static_cast<int>(cell.runs.front().replicas()),
          cell.runs.front().replicas_by_block()};
}

}  // namespace

std::string timeline_section(const ReportInput& input) {
  if (input.only_numbers) return "";
  std::vector<TraceFile> traces;
  double longest = 0;
  for (const StudyCell& cell : input.study.cells) {
    const std::string path = trace_of(cell);
    traces.push_back(path.empty() ? TraceFile{}
                                  : read_trace(path, kTurnsShown));
    longest = std::max(longest, end_of(traces.back()));
  }
  std::string figures;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const StudyCell& cell = input.study.cells[i];
    const double own = end_of(traces[i]);
    if (own <= 0) continue;
    const double end = longest <= kMostShrunk * own ? longest : own;
    figures +=
        element("h3", "", legend_mark(input.styles[i]) + escaped(cell.label)) +
        element("div", "class=\"scroll\"",
                drawing_of(traces[i], end, seats_of(cell))) +
        "\n";
  }
  if (figures.empty()) return "";
  return element("p", "class=\"soft\"",
                 fmt::format("The first {} turns of a run of each cell, from "
                             "its trace.json, which ui.perfetto.dev opens "
                             "whole. Lines between blocks are messages.",
                             kTurnsShown)) +
         kinds_legend() + figures;
}

}  // namespace sluice::report
