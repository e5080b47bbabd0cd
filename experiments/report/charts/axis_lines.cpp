#include "experiments/report/charts/axis_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace sluice::report {
namespace {

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

std::optional<double> number_at(const Study& study, std::size_t axis,
                                const StudyCell& cell) {
  if (const std::size_t blocks = cell.count_of_blocks();
      study.axes[axis] == "blocks" && blocks > 0)
    return static_cast<double>(blocks);
  return number_in(cell.values[axis]);
}

bool has_numbers(const Study& study, std::size_t axis) {
  std::set<double> numbers;
  for (const StudyCell& cell : study.cells) {
    if (cell.values[axis].empty()) continue;
    const auto number = number_at(study, axis, cell);
    if (!number) return false;
    numbers.insert(*number);
  }
  return numbers.size() >= 2;
}

/// The values of a cell that no number tells; empty where it has none.
using Name = std::vector<std::string>;

Name name_of(const StudyCell& cell, const std::vector<std::size_t>& numbers) {
  Name name = cell.values;
  for (const std::size_t axis : numbers) name[axis].clear();
  return name;
}

/// Whether a cell of that name lies on the line of another name too.
bool is_on(const Name& name, const Name& line) {
  for (std::size_t i = 0; i < name.size(); ++i)
    if (!name[i].empty() && name[i] != line[i]) return false;
  return true;
}

/// The names that stand for a line: no other name says more.
std::vector<Name> names_of_lines(const std::vector<Name>& cells) {
  std::vector<Name> lines;
  for (const Name& name : cells)
    if (std::find(lines.begin(), lines.end(), name) == lines.end() &&
        std::none_of(cells.begin(), cells.end(), [&](const Name& other) {
          return other != name && is_on(name, other);
        }))
      lines.push_back(name);
  return lines;
}

std::vector<std::string> parts_of(const std::string& label) {
  constexpr std::string_view kBetween = ", ";
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (auto end = label.find(kBetween); end != label.npos;
       end = label.find(kBetween, begin)) {
    parts.push_back(label.substr(begin, end - begin));
    begin = end + kBetween.size();
  }
  parts.push_back(label.substr(begin));
  return parts;
}

/// Whether a part of a label, "lr=0.1", is of the axis, optimizer.lr.
bool tells(const std::string& part, const std::string& axis) {
  const auto dot = axis.rfind('.');
  return part.starts_with(axis.substr(dot == axis.npos ? 0 : dot + 1) + "=");
}

/// The values that labels of these cells share beside numbers, or else their
/// method.
std::string label_of(const Study& study,
                     const std::vector<std::size_t>& numbers,
                     const std::vector<std::size_t>& cells) {
  const StudyCell& first = study.cells[cells.front()];
  const auto is_shared = [&](const std::string& part) {
    return std::all_of(cells.begin(), cells.end(), [&](std::size_t cell) {
      const auto parts = parts_of(study.cells[cell].label);
      return std::find(parts.begin(), parts.end(), part) != parts.end();
    });
  };
  const auto is_number = [&](const std::string& part) {
    return std::any_of(numbers.begin(), numbers.end(), [&](std::size_t axis) {
      return tells(part, study.axes[axis]);
    });
  };
  std::string label;
  for (const std::string& part : parts_of(first.label))
    if (is_shared(part) && !is_number(part))
      label += (label.empty() ? "" : ", ") + part;
  return label.empty() ? first.method : label;
}

bool tells_blocks(const std::string& part) {
  return tells(part, "blocks") || part.ends_with(" blocks") ||
         part.ends_with(" block");
}

/// The label without what tells tuned numbers, or how many blocks there are.
std::string label_of_line(const Study& study,
                          const std::vector<std::size_t>& tuned,
                          const StudyCell& cell) {
  std::string label;
  for (const std::string& part : parts_of(cell.label))
    if (!tells_blocks(part) &&
        std::none_of(tuned.begin(), tuned.end(), [&](std::size_t axis) {
          return tells(part, study.axes[axis]);
        }))
      label += (label.empty() ? "" : ", ") + part;
  return label.empty() ? cell.method : label;
}

std::vector<std::size_t> tuned_axes(const Study& study) {
  std::vector<std::size_t> axes = number_axes(study);
  std::erase_if(axes, [&](std::size_t axis) {
    const std::string& key = study.axes[axis];
    return key == "blocks" || key.starts_with("model.") ||
           key.starts_with("data.") || key.starts_with("replicas.");
  });
  return axes;
}

std::size_t blocks_of(const Study& study, const StudyCell& cell) {
  if (cell.count_of_blocks() > 0) return cell.count_of_blocks();
  const auto axis = std::find(study.axes.begin(), study.axes.end(), "blocks");
  if (axis == study.axes.end()) return 0;
  const auto number = number_in(
      cell.values[static_cast<std::size_t>(axis - study.axes.begin())]);
  return number && *number > 0 ? static_cast<std::size_t>(*number) : 0;
}

/// The column to judge by; nullptr: there is none.
const Column* judging_column(const std::vector<Column>& columns) {
  for (const char* name : {"test_accuracy", "test_loss"}) {
    const Column* column = find_column(columns, name);
    if (column == nullptr) continue;
    const Column& chooser = column_to_choose_by(columns, *column);
    if (std::any_of(chooser.spreads.begin(), chooser.spreads.end(),
                    [](const Spread& spread) { return spread.n > 0; }))
      return &chooser;
  }
  return nullptr;
}

bool is_better(const Column& figure, std::size_t a, std::size_t b) {
  return figure.figure.higher_is_better ? figure.mean(a) > figure.mean(b)
                                        : figure.mean(a) < figure.mean(b);
}

}  // namespace

std::vector<std::size_t> number_axes(const Study& study) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < study.axes.size(); ++axis)
    if (has_numbers(study, axis)) axes.push_back(axis);
  return axes;
}

std::vector<std::size_t> chosen_along(const Study& study, std::size_t axis) {
  std::vector<std::size_t> axes = number_axes(study);
  std::erase_if(axes, [&](std::size_t other) {
    return other != axis && study.axes[other] == "blocks";
  });
  return axes;
}

std::vector<BestCell> best_cells(const Study& study,
                                 const std::vector<Column>& columns) {
  const std::vector<std::size_t> tuned = tuned_axes(study);
  const Column* figure = judging_column(columns);
  std::vector<Name> names;
  std::vector<BestCell> best;
  for (std::size_t i = 0; i < study.cells.size(); ++i) {
    const StudyCell& cell = study.cells[i];
    const Name name = name_of(cell, tuned);
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      names.push_back(name);
      best.push_back({.cell = i,
                      .line = label_of_line(study, tuned, cell),
                      .blocks = blocks_of(study, cell)});
      continue;
    }
    BestCell& known = best[static_cast<std::size_t>(at - names.begin())];
    ++known.of;
    if (figure != nullptr && std::isfinite(figure->mean(i)) &&
        (!std::isfinite(figure->mean(known.cell)) ||
         is_better(*figure, i, known.cell)))
      known.cell = i;
  }
  return best;
}

std::vector<AxisLine> lines_along(const Study& study, const Column& figure,
                                  std::size_t axis) {
  const std::vector<std::size_t> numbers = chosen_along(study, axis);
  std::vector<Name> names;
  for (const StudyCell& cell : study.cells)
    names.push_back(name_of(cell, numbers));
  std::vector<AxisLine> lines;
  for (const Name& line : names_of_lines(names)) {
    std::map<double, std::size_t> best;
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == line) own.push_back(i);
      const auto x = number_at(study, axis, study.cells[i]);
      if (!is_on(names[i], line) || !x || !std::isfinite(figure.mean(i)))
        continue;
      const auto [at, is_new] = best.emplace(*x, i);
      if (!is_new && is_better(figure, i, at->second)) at->second = i;
    }
    if (best.size() < 2) continue;
    AxisLine& added =
        lines.emplace_back(AxisLine{.label = label_of(study, numbers, own)});
    for (const auto& [x, cell] : best) added.points.push_back({x, cell});
  }
  return lines;
}

}  // namespace sluice::report
