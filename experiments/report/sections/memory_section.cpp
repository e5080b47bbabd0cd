#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/sections.h"

namespace sluice::report {
namespace {

struct Purpose {
  records::Bytes records::Memory::*bytes;
  const char* title;
  int shade;
};
/// Purposes of memory. The last one is of few runs, and left out of others'
/// tables.
constexpr std::array<Purpose, 7> kPurposes = {{
    {&records::Memory::weights_bytes, "weights", 0},
    {&records::Memory::optimizer_bytes, "optimizer", 1},
    {&records::Memory::graph_bytes, "graphs", 2},
    {&records::Memory::stash_bytes, "stashed weights", 3},
    {&records::Memory::history_bytes, "history", 4},
    {&records::Memory::queue_bytes, "queues", 5},
    {&records::Memory::centre_bytes, "centre of replicas", 7},
}};
constexpr int kRestShade = 6;
constexpr double kBarWidth = 220;

/// The means over the runs of a cell, in bytes; NaN where none counted them.
struct CellMemory {
  std::array<double, kPurposes.size()> parts = {};
  double peak = 0;
  double forecast = 0;  ///< of the peak, made before the first turn
  double resident = 0;  ///< by which the block's process grew

  /// What the owners don't know: gradients, temporaries. Each is the most that
  /// there was, not all at the same time; so it may be nothing.
  double rest() const {
    double sum = 0;
    for (const double part : parts) sum += std::isfinite(part) ? part : 0;
    return std::isfinite(peak) ? std::max(0.0, peak - sum) : 0;
  }
  bool has_centre() const { return std::isfinite(parts.back()); }
  double length() const {
    double sum = rest();
    for (const double part : parts) sum += std::isfinite(part) ? part : 0;
    return sum;
  }
};

/// Figures that the runs have of a block.
double mean_of(const StudyCell& cell, int block, auto RunRecord::*blocks,
               const auto& bytes_of) {
  std::vector<double> values;
  for (const RunRecord* run : cell.runs_to_draw()) {
    const auto found = (run->*blocks).find(block);
    if (found == (run->*blocks).end()) continue;
    if (const records::Bytes bytes = bytes_of(found->second))
      values.push_back(static_cast<double>(*bytes));
  }
  return spread_of(values).mean;
}

std::map<int, CellMemory> ledgers_of(const StudyCell& cell) {
  std::map<int, CellMemory> ledgers;
  for (const RunRecord* run : cell.runs_to_draw())
    for (const auto& [block, cost] : run->blocks) ledgers[block] = {};
  const auto peak = [](const auto& of) { return of.memory.peak_bytes; };
  for (auto& [block, ledger] : ledgers) {
    for (std::size_t i = 0; i < kPurposes.size(); ++i)
      ledger.parts.at(i) = mean_of(
          cell, block, &RunRecord::blocks,
          [i](const auto& cost) { return cost.memory.*kPurposes.at(i).bytes; });
    ledger.peak = mean_of(cell, block, &RunRecord::blocks, peak);
    ledger.forecast = mean_of(cell, block, &RunRecord::forecasts, peak);
    ledger.resident =
        mean_of(cell, block, &RunRecord::blocks,
                [](const auto& cost) { return cost.resident_bytes; });
  }
  return ledgers;
}

std::string mib_text(double bytes) {
  return std::isfinite(bytes) ? fmt::format("{:.2f}", bytes / (1 << 20)) : "-";
}

std::string bar_of(const CellMemory& ledger, double longest) {
  std::string inside;
  double x = 0;
  const auto add = [&](double bytes, int shade, const char* title) {
    if (!std::isfinite(bytes) || bytes <= 0) return;
    const double width = kBarWidth * bytes / longest;
    inside += fmt::format(
        "<rect class=\"s{}\" x=\"{:.2f}\" y=\"0\" width=\"{:.2f}\" "
        "height=\"14\"><title>{}: {} MiB</title></rect>",
        shade, x, width, title, mib_text(bytes));
    x += width;
  };
  for (std::size_t i = 0; i < kPurposes.size(); ++i)
    add(ledger.parts.at(i), kPurposes.at(i).shade, kPurposes.at(i).title);
  add(ledger.rest(), kRestShade, "rest");
  return fmt::format(
      "<svg viewBox=\"0 0 {0} 14\" width=\"{0}\" height=\"14\" role=\"img\" "
      "aria-label=\"parts of the peak\">{1}</svg>",
      kBarWidth, inside);
}

/// Purposes that the tables show.
std::span<const Purpose> purposes(bool has_centres) {
  return std::span(kPurposes).first(kPurposes.size() - (has_centres ? 0 : 1));
}

std::string purposes_legend(bool has_centres) {
  std::string items;
  const auto add = [&](int shade, const char* title) {
    items += element(
        "li", "",
        fmt::format(
            "<svg width=\"14\" height=\"14\" aria-hidden=\"true\"><rect "
            "class=\"s{}\" width=\"14\" height=\"14\"/></svg>{}",
            shade, title));
  };
  for (const Purpose& purpose : purposes(has_centres))
    add(purpose.shade, purpose.title);
  add(kRestShade, "rest: gradients, temporaries");
  return element("ul", "class=\"legend\"", items);
}

std::string notes(bool has_forecasts, bool has_processes) {
  std::string text =
      "MiB at most, measured, by block; means over seeds. Parts need not be "
      "largest at the same time.";
  text +=
      has_forecasts
          ? " Forecast: of the peak, made before the first turn."
          : " With <code>forecast = true</code> a run says beside them what "
            "it expected before its first turn.";
  if (has_processes)
    text +=
        " Resident: by how much the block's process had grown since its start.";
  return text;
}

std::string head(bool has_forecasts, bool has_processes, bool has_centres) {
  std::string cells = element("th", "", "cell") + element("th", "", "block");
  for (const Purpose& purpose : purposes(has_centres))
    cells += element("th", "", purpose.title);
  cells += element("th", "", "peak");
  if (has_forecasts) cells += element("th", "", "forecast");
  if (has_processes) cells += element("th", "", "resident");
  cells += element("th", "class=\"text\"", "");
  return element("thead", "", element("tr", "", cells));
}

}  // namespace

std::string memory_section(const ReportInput& input) {
  if (input.only_numbers) return "";
  std::vector<std::map<int, CellMemory>> all;
  double longest = 0;
  bool has_forecasts = false;
  bool has_processes = false;
  bool has_centres = false;
  for (const StudyCell& cell : input.study.cells) {
    all.push_back(ledgers_of(cell));
    for (const auto& [block, ledger] : all.back()) {
      longest = std::max(longest, ledger.length());
      has_forecasts = has_forecasts || std::isfinite(ledger.forecast);
      has_processes = has_processes || std::isfinite(ledger.resident);
      has_centres = has_centres || ledger.has_centre();
    }
  }
  if (longest == 0) return "";
  std::string rows;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const auto& [block, ledger] : all[i]) {
      std::string cells;
      if (block == all[i].begin()->first)
        cells = cell_head(input, i, false, all[i].size());
      cells += element("td", "", fmt::format("{}", block));
      for (std::size_t k = 0; k < purposes(has_centres).size(); ++k)
        cells += element("td", "", mib_text(ledger.parts.at(k)));
      cells += element("td", "", element("b", "", mib_text(ledger.peak)));
      if (has_forecasts) cells += element("td", "", mib_text(ledger.forecast));
      if (has_processes) cells += element("td", "", mib_text(ledger.resident));
      cells += element("td", "class=\"text\"", bar_of(ledger, longest));
      rows += element("tr", "", cells) + "\n";
    }
  return element("p", "class=\"soft\"", notes(has_forecasts, has_processes)) +
         purposes_legend(has_centres) +
         element("div", "class=\"scroll\"",
                 element("table", "",
                         head(has_forecasts, has_processes, has_centres) +
                             element("tbody", "", rows)));
}

}  // namespace sluice::report
