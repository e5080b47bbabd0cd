#include "experiments/report/sections/results_table.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "experiments/report/charts/axis_lines.h"
#include "experiments/report/charts/axis_value.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/table_files.h"

namespace sluice::report {
namespace {

/// Most axes for which the label of a cell is made of them.
constexpr std::size_t kMostAxes = 6;
/// Pixels of the table where the window has 1280, of a digit, and between
/// columns.
constexpr double kRoom = 1220;
constexpr double kDigit = 7.6;
constexpr double kPadding = 16;
/// Least number of figures that the table shows, whatever room there is.
constexpr std::size_t kLeastFigures = 2;
constexpr std::size_t kLongestValue = 28;

/// Characters of a UTF-8 text: continuation bytes don't count.
std::size_t letters_in(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

/// Heads are broken between words.
std::size_t longest_word(const std::string& text) {
  std::istringstream words(text);
  std::size_t longest = 0;
  for (std::string word; words >> word;)
    longest = std::max(longest, letters_in(word));
  return longest;
}

double width_for(std::size_t letters) {
  return kPadding + kDigit * static_cast<double>(letters);
}

std::string name_of_axis(const std::string& key) {
  const auto dot = key.rfind('.');
  const std::string last = dot == key.npos ? key : key.substr(dot + 1);
  return last == "name" ? key : last;
}

/// The value of an axis in words; for `blocks` their number, not their layers.
std::string value_of_axis(const Study& study, std::size_t axis,
                          const StudyCell& cell) {
  if (study.axes[axis] == "blocks" && cell.count_of_blocks() > 0)
    return fmt::format("{}", cell.count_of_blocks());
  return readable_value(cell.values[axis]);
}

bool has_axis_columns(const Study& study) {
  return !study.axes.empty() && study.axes.size() <= kMostAxes;
}

/// Marks a row whose runs are not all done.
std::string class_of_row(const StudyCell& cell, bool is_best) {
  std::string name = is_best ? "best" : "";
  const auto add = [&](const char* more) {
    name += (name.empty() ? "" : " ") + std::string(more);
  };
  if (cell.count(RunRecord::State::failed) > 0)
    add("failed");
  else if (cell.count(RunRecord::State::done) <
           static_cast<int>(cell.runs.size()))
    add("open");
  return name.empty() ? "" : fmt::format("class=\"{}\"", name);
}

/// Text of a figure, without the number of runs where all runs that are done
/// count.
std::string figure_text(const Column& column, std::size_t index,
                        const StudyCell& cell) {
  const std::string text = column.text(index);
  const auto n = text.find(" (");
  const bool is_all =
      column.spreads[index].n > 0 &&
      column.spreads[index].n == cell.count(RunRecord::State::done);
  return n != text.npos && is_all ? text.substr(0, n) : text;
}

/// Whether other programs on the machine change the figure.
bool depends_on_load(const Figure& figure) {
  return figure.is_measured && figure.name != "peak_memory_bytes" &&
         !figure.name.starts_with("virtual_");
}

std::string figure_html(const Column& column, std::size_t index,
                        const StudyCell& cell, bool is_more) {
  std::string text = escaped(figure_text(column, index, cell));
  if (const auto n = text.find(" ("); n != text.npos)
    text = text.substr(0, n) + element("span", "class=\"n\"", text.substr(n));
  if (column.winner == index) text = element("b", "", text);
  if (depends_on_load(column.figure) && cell.shared_machine())
    text += element("span", "class=\"n\"", " shared");
  const double mean = column.mean(index);
  return element(
      "td",
      fmt::format("{}data-value=\"{}\"", is_more ? "class=\"more\" " : "",
                  std::isfinite(mean) ? fmt::format("{:.9g}", mean) : ""),
      text);
}

/// Whether each column is hidden at first.
std::vector<bool> columns_to_fold(const ReportInput& input) {
  const Study& study = input.study;
  double room = kRoom - width_for(9);  // mark and link
  std::size_t longest = 4;
  for (const StudyCell& cell : study.cells)
    longest = std::max(longest, letters_in(runs_text(cell)));
  room -= width_for(longest);
  if (!has_axis_columns(study)) {
    room -= 300;  // the style's
  } else {
    for (std::size_t axis = 0; axis < study.axes.size(); ++axis) {
      longest = letters_in(name_of_axis(study.axes[axis]));
      for (const StudyCell& cell : study.cells)
        longest = std::max(
            longest, std::min(kLongestValue,
                              letters_in(value_of_axis(study, axis, cell))));
      room -= width_for(longest);
    }
  }
  std::vector<bool> folded;
  for (const Column& column : input.columns) {
    longest = longest_word(column.figure.heading());
    const bool is_loaded = depends_on_load(column.figure);
    for (std::size_t i = 0; i < study.cells.size(); ++i)
      longest =
          std::max(longest, letters_in(figure_text(column, i, study.cells[i])) +
                                (is_loaded && study.cells[i].shared_machine()
                                     ? std::string_view(" shared").size()
                                     : 0));
    room -= width_for(longest);
    folded.push_back(room < 0 && folded.size() >= kLeastFigures);
  }
  return folded;
}

std::string head_of_table(const ReportInput& input,
                          const std::vector<bool>& folded) {
  std::string cells = element("th", "", "cell");
  if (has_axis_columns(input.study))
    for (const std::string& axis : input.study.axes)
      cells += element(
          "th", fmt::format("class=\"text axis\" title=\"{}\"", escaped(axis)),
          breakable(name_of_axis(axis)));
  cells += element("th", "class=\"text\"", "runs");
  for (std::size_t i = 0; i < input.columns.size(); ++i)
    cells += element("th", folded[i] ? "class=\"more\"" : "",
                     escaped(input.columns[i].figure.heading()));
  return element("thead", "", element("tr", "", cells));
}

std::string axis_html(const std::string& value) {
  const bool is_long = letters_in(value) > kLongestValue;
  return element("td",
                 fmt::format("class=\"text{}\" data-value=\"{}\"",
                             is_long ? " long" : "", escaped(value)),
                 breakable(value));
}

/// Mark and number; the number leads to the config.
std::string short_head(const ReportInput& input, std::size_t index) {
  const StudyCell& cell = input.study.cells[index];
  return element(
      "th", fmt::format("title=\"{}\"", escaped(cell.label)),
      element(
          "span", "class=\"cell\"",
          legend_mark(input.styles[index]) +
              element("a", fmt::format("href=\"#cell-{}\"", escaped(cell.id)),
                      escaped(cell.id))));
}

std::string row_of_table(const ReportInput& input, std::size_t index,
                         bool is_best, const std::vector<bool>& folded) {
  const StudyCell& cell = input.study.cells[index];
  const bool has_axes = has_axis_columns(input.study);
  std::string cells =
      has_axes ? short_head(input, index) : cell_head(input, index, true);
  if (has_axes)
    for (std::size_t axis = 0; axis < input.study.axes.size(); ++axis)
      cells += axis_html(value_of_axis(input.study, axis, cell));
  cells += element("td", "class=\"text runs\"", escaped(runs_text(cell)));
  for (std::size_t i = 0; i < input.columns.size(); ++i)
    cells += figure_html(input.columns[i], index, cell, folded[i]);
  return element("tr", class_of_row(cell, is_best), cells) + "\n";
}

/// A box before the table, which the style lets choose what shows.
std::string box_of(const char* id, const std::string& text) {
  return fmt::format(
      "<input type=\"checkbox\" id=\"{0}\"/><label for=\"{0}\">{1}</label>\n",
      id, escaped(text));
}

}  // namespace

std::string results_table(const ReportInput& input) {
  const std::vector<bool> folded = columns_to_fold(input);
  const std::size_t count = input.study.cells.size();
  std::vector<bool> is_best(count);
  const std::vector<BestCell> best = best_cells(input.study, input.columns);
  const bool has_choice = best.size() < count;
  std::string first;
  if (has_choice)
    for (const BestCell& one : best) {
      is_best[one.cell] = true;
      first += row_of_table(input, one.cell, true, folded);
    }
  std::string rows;
  for (std::size_t i = 0; i < count; ++i)
    if (!is_best[i]) rows += row_of_table(input, i, false, folded);
  const auto more = std::count(folded.begin(), folded.end(), true);
  std::string html;
  if (has_choice)
    html += box_of("only-best",
                   fmt::format("only the best of each method and number of "
                               "blocks ({} of {}, they come first)",
                               best.size(), count));
  if (more > 0)
    html += box_of("all-figures",
                   fmt::format("{} more figure{}", more, more == 1 ? "" : "s"));
  html += element(
      "div", "class=\"scroll\"",
      element(
          "table",
          has_axis_columns(input.study) ? "class=\"results compact\""
                                        : "class=\"results\"",
          head_of_table(input, folded) + element("tbody", "", first + rows)));
  return element("div", "class=\"tools\"", html);
}

}  // namespace sluice::report
