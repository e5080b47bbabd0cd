#include "experiments/report/charts/figures.h"

#include <filesystem>
#include <ostream>
#include <system_error>

#include <fmt/format.h>

#include "experiments/report/charts/chart_style.h"
#include "experiments/report/charts/html.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"

namespace sluice::report {
namespace {

namespace fs = std::filesystem;

constexpr int kRow = 20;
constexpr int kMargin = 12;

std::string legend_row(const ChartItem& item, int y) {
  return fmt::format(
      "<g transform=\"translate({},{})\">{}</g>"
      "<text x=\"{}\" y=\"{}\">{}</text>\n",
      kMargin, y, key_drawing(item.style), kMargin + kKeyWidth + 6,
      y + kKeyHeight - 2, escaped(item.label));
}

ChartColours colours_on_white() {
  ChartColours colours = light_colours();
  colours.panel = "#fff";
  return colours;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UserError("can't make {}: {}", folder, error.message());
}

void remove_figures(const std::string& folder) {
  if (!fs::is_directory(folder)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".svg") fs::remove(entry.path());
}

}  // namespace

std::string figure_of(const Chart& chart) {
  const int height = kChartHeight + kMargin +
                     kRow * static_cast<int>(chart.items.size()) + kMargin;
  std::string rows;
  int y = kChartHeight + kMargin;
  for (const ChartItem& item : chart.items) {
    rows += legend_row(item, y);
    y += kRow;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n{4}\n{5}</svg>\n",
      kChartWidth, height, escaped(chart.title + " against " + chart.x_label),
      chart_style(colours_on_white()), drawing_of(chart), rows);
}

void write_figures(const std::string& folder,
                   const std::vector<Chart>& charts) {
  remove_figures(folder);
  if (charts.empty()) return;
  make_folder(folder);
  for (const Chart& chart : charts)
    write_file_atomically(
        fmt::format("{}/{}.svg", folder, chart.name),
        [&](std::ostream& file) { file << figure_of(chart); });
}

}  // namespace sluice::report
