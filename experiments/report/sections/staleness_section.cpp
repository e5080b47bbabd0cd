#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/report/charts/html.h"
#include "experiments/report/sections/sections.h"
#include "experiments/report/study/scale.h"

namespace sluice::report {
namespace {

using Histogram = std::map<std::int64_t, std::int64_t>;
using Histograms = std::map<int, Histogram>;  ///< by block

constexpr double kHistogramWidth = 440;
constexpr double kHistogramLeft = 62;
constexpr double kHistogramRight = 12;
constexpr double kHistogramLane = 46;
constexpr double kHistogramFoot = 42;
constexpr std::int64_t kMostBars = 40;

Histograms histograms_of(const StudyCell& cell, const std::string& counter) {
  Histograms sum;
  for (const RunRecord* run : cell.runs_to_draw()) {
    const auto found = run->staleness.find(counter);
    if (found == run->staleness.end()) continue;
    for (const auto& [block, counts] : found->second)
      for (const auto& [value, times] : counts) sum[block][value] += times;
  }
  return sum;
}

std::int64_t largest_in(const Histograms& histograms) {
  std::int64_t largest = 0;
  for (const auto& [block, counts] : histograms)
    if (!counts.empty()) largest = std::max(largest, counts.rbegin()->first);
  return largest;
}

/// Values of a bar: more than one where there would be too many bars.
std::int64_t values_per_bar(std::int64_t largest) {
  return largest / kMostBars + 1;
}

/// Width of a bar with its gap.
double slot_of(std::int64_t largest) {
  const std::int64_t bars = largest / values_per_bar(largest) + 1;
  return (kHistogramWidth - kHistogramLeft - kHistogramRight) /
         static_cast<double>(bars);
}

std::string lane_of(int block, const Histogram& counts, std::int64_t largest,
                    double top, int colour) {
  const std::int64_t width = values_per_bar(largest);
  std::map<std::int64_t, std::int64_t> bars;
  std::int64_t all = 0;
  for (const auto& [value, times] : counts) {
    bars[value / width] += times;
    all += times;
  }
  const double slot = slot_of(largest);
  const double foot = top + kHistogramLane - 6;
  std::string out = fmt::format(
      "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">block "
      "{}</text><line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" "
      "y2=\"{:.1f}\"/>",
      kHistogramLeft - 8, foot - 4, block, kHistogramLeft, foot,
      kHistogramWidth - kHistogramRight, foot);
  for (const auto& [bar, times] : bars) {
    const double share = static_cast<double>(times) /
                         static_cast<double>(std::max<std::int64_t>(all, 1));
    const double height = std::max(1.0, share * (kHistogramLane - 12));
    out += fmt::format(
        "<rect class=\"area c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{:.1f}\"><title>block {}, {}: {:.1f} %</title></rect>",
        colour, kHistogramLeft + (static_cast<double>(bar) + 0.14) * slot,
        foot - height, std::min(0.72 * slot, 60.0), height, block, bar * width,
        100 * share);
  }
  return out;
}

/// Whole numbers below the middle of their bars.
std::string foot_of(std::int64_t largest, double y, const char* label) {
  const std::int64_t width = values_per_bar(largest);
  const double slot = slot_of(largest);
  const double middle = 0.14 * slot + std::min(0.72 * slot, 60.0) / 2;
  std::string out;
  const std::int64_t step =
      std::max<std::int64_t>(1, (largest / width + 1 + 9) / 10);
  for (std::int64_t bar = 0; bar * width <= largest; bar += step)
    out += fmt::format(
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"middle\">{}</text>",
        kHistogramLeft + static_cast<double>(bar) * slot + middle, y + 14,
        bar * width);
  return out + fmt::format(
                   "<text class=\"axis-label\" x=\"{}\" y=\"{:.1f}\" "
                   "text-anchor=\"middle\">{}</text>",
                   (kHistogramLeft + kHistogramWidth - kHistogramRight) / 2,
                   y + 33, label);
}

/// Caption that names the cells whose pictures are the same.
std::string caption_of(const ReportInput& input,
                       const std::vector<std::size_t>& cells) {
  const auto label_of = [&](std::size_t cell) {
    return escaped(input.study.cells[cell].label);
  };
  if (cells.size() == 1)
    return element("figcaption", "", label_of(cells.front()));
  std::string names;
  for (const std::size_t cell : cells)
    names += element("div", "", label_of(cell));
  return element(
      "figcaption", "",
      element("details", "",
              element("summary", "",
                      fmt::format("{} cells alike: {}, ...", cells.size(),
                                  label_of(cells.front()))) +
                  names));
}

std::string picture_of(const Histograms& histograms, std::int64_t largest,
                       const char* label, int colour) {
  std::string inside;
  double top = 6;
  // The last block on top, as it is drawn elsewhere.
  for (auto at = histograms.rbegin(); at != histograms.rend(); ++at) {
    inside += lane_of(at->first, at->second, largest, top, colour);
    top += kHistogramLane;
  }
  inside += foot_of(largest, top - 4, label);
  return fmt::format(
      "<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">{}</svg>",
      kHistogramWidth, top + kHistogramFoot, escaped(label), inside);
}

/// Pictures that are drawn once for all cells that have the same one.
class Pictures {
 public:
  void add(std::size_t cell, std::string picture, int colour) {
    for (Picture& known : all_)
      if (known.drawn == picture) {
        known.cells.push_back(cell);
        return;
      }
    all_.push_back({std::move(picture), colour, {cell}});
  }
  /// `redrawn` makes the picture of a cell in a colour.
  std::string html(
      const ReportInput& input,
      const std::function<std::string(std::size_t cell, int colour)>& redrawn)
      const {
    std::string figures;
    for (const Picture& picture : all_)
      figures += element("figure", "",
                         caption_of(input, picture.cells) +
                             redrawn(picture.cells.front(), picture.colour));
    return figures;
  }

 private:
  struct Picture {
    std::string drawn;  ///< in one colour for all
    int colour = 0;     ///< of its first cell
    std::vector<std::size_t> cells;
  };
  std::vector<Picture> all_;
};

/// The cells in which nothing is ever stale; many of them below a fold.
std::string fresh_html(const ReportInput& input,
                       const std::vector<std::size_t>& cells) {
  constexpr std::size_t kMostInLine = 4;
  if (cells.empty()) return "";
  std::string names;
  std::string lines;
  for (const std::size_t cell : cells) {
    const std::string label = escaped(input.study.cells[cell].label);
    names += (names.empty() ? "" : "; ") + label;
    lines += element("div", "", label);
  }
  if (cells.size() <= kMostInLine)
    return element("p", "", fmt::format("Always 0: {}.", names));
  return element("details", "",
                 element("summary", "",
                         fmt::format("Always 0: {} of {} cells", cells.size(),
                                     input.study.cells.size())) +
                     lines);
}

/// A figure for all cells in which the same is stale; those in which nothing is
/// in a line.
std::string counter_html(const ReportInput& input, const char* counter,
                         const char* title, const char* label) {
  std::int64_t largest = 0;
  bool any = false;
  for (const StudyCell& cell : input.study.cells) {
    const Histograms histograms = histograms_of(cell, counter);
    any = any || !histograms.empty();
    largest = std::max(largest, largest_in(histograms));
  }
  if (!any) return "";
  const auto drawn = [&](std::size_t cell, int colour) {
    return picture_of(histograms_of(input.study.cells[cell], counter), largest,
                      label, colour);
  };
  Pictures pictures;
  std::vector<std::size_t> fresh;
  for (std::size_t i = 0; i < input.study.cells.size(); ++i) {
    const StudyCell& cell = input.study.cells[i];
    const Histograms histograms = histograms_of(cell, counter);
    if (histograms.empty()) continue;
    if (largest_in(histograms) == 0)
      fresh.push_back(i);
    else
      pictures.add(i, drawn(i, 0), input.styles[i].colour);
  }
  const std::string figures = pictures.html(input, drawn);
  std::string html = element("h3", "", title) + fresh_html(input, fresh);
  if (!figures.empty()) html += element("div", "class=\"charts\"", figures);
  return html;
}

}  // namespace

std::string staleness_section(const ReportInput& input) {
  const std::string html =
      counter_html(input, "d_batch", "In batches",
                   "turns from a batch&#39;s forward to its update") +
      counter_html(input, "d_upd", "In updates",
                   "updates between a batch&#39;s forward and its own") +
      counter_html(input, "input_age", "Age of inputs",
                   "batches that had come since") +
      counter_html(input, "input_reuse", "Reuse of inputs",
                   "times that it had been taken before");
  if (html.empty()) return "";
  return element("p", "class=\"soft\"",
                 "Shares of a block&#39;s updates, over all seeds.") +
         html;
}

}  // namespace sluice::report
