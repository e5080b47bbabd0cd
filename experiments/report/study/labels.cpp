#include "experiments/report/study/labels.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "experiments/config/numbers.h"

namespace sluice::report {
namespace {

/// Keys of a config by their dotted paths, with their values as TOML.
using Leaves = std::map<std::string, std::string>;

bool is_zero(const ConfigNode& node) {
  const auto* integer = std::get_if<std::int64_t>(&node.value);
  const auto* number = std::get_if<double>(&node.value);
  return (integer != nullptr && *integer == 0) ||
         (number != nullptr && *number == 0);
}

/// Whether a key of the table [data] says that there is no such split: it is 0.
bool is_unused_split(const std::string& key, const ConfigNode& value) {
  constexpr std::array<std::string_view, 3> kSplits = {
      "validation", "validation_seed", "test"};
  return is_zero(value) &&
         std::find(kSplits.begin(), kSplits.end(), key) != kSplits.end();
}

/// Keys that a label has wherever cells differ in them.
constexpr std::array<std::string_view, 3> kAlwaysTold = {
    "data.name", "model.name", "blocks"};
/// Keys that say most of the others; they come before the rest.
constexpr std::array<std::string_view, 4> kToldFirst = {
    "optimizer.name", "optimizer.lr", "batch_size", "epochs"};

void add_leaves(const ConfigNode& node, const std::string& path,
                Leaves& leaves) {
  const auto* table = std::get_if<ConfigNode::Table>(&node.value);
  if (table == nullptr) {
    leaves[path] = node.literal();
    return;
  }
  const std::string before = path.empty() ? "" : path + ".";
  for (const auto& [key, value] : *table)
    add_leaves(value, before + key, leaves);
}

bool is_number(std::string_view part) {
  return !part.empty() &&
         part.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Key without a block's number: "optimizer.lr" of "optimizer.2.lr".
std::string without_block(const std::string& path) {
  const auto begin = path.find('.');
  if (begin == path.npos) return path;
  const auto end = path.find('.', begin + 1);
  const std::string_view part =
      std::string_view(path).substr(begin + 1, end - begin - 1);
  if (end == path.npos || !is_number(part)) return path;
  return path.substr(0, begin) + path.substr(end);
}

/// Merges equal keys of all blocks or boundaries into one.
Leaves merged(const Leaves& leaves) {
  std::map<std::string, std::set<std::string>> values;
  for (const auto& [path, value] : leaves)
    values[without_block(path)].insert(value);
  Leaves merged;
  for (const auto& [path, value] : leaves) {
    const std::string key = without_block(path);
    merged[values[key].size() == 1 ? key : path] = value;
  }
  return merged;
}

Leaves leaves_of(const StudyCell& cell) {
  Leaves leaves;
  add_leaves(numbers_of_cell(*cell.config()), "", leaves);
  return merged(leaves);
}

std::string value_in(const Leaves& leaves, const std::string& key) {
  const auto found = leaves.find(key);
  return found == leaves.end() ? "" : found->second;
}

std::vector<std::string> axes_of(const std::vector<Leaves>& cells) {
  std::set<std::string> keys;
  for (const Leaves& leaves : cells)
    for (const auto& [key, value] : leaves) keys.insert(key);
  std::vector<std::string> axes;
  for (const std::string& key : keys)
    if (std::any_of(cells.begin(), cells.end(), [&](const Leaves& leaves) {
          return value_in(leaves, key) != value_in(cells.front(), key);
        }))
      axes.push_back(key);
  return axes;
}

std::string unquoted(const std::string& text) {
  const bool is_quoted = text.size() >= 2 && text.front() == '"';
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

/// A value for a label: "resnet20", "4 blocks", "lr=0.1".
std::string told(const std::string& key, const std::string& value,
                 const StudyCell& cell) {
  if (key == "data.name" || key == "model.name") return unquoted(value);
  if (const std::size_t count = cell.count_of_blocks();
      key == "blocks" && count > 0)
    return fmt::format("{} block{}", count, count == 1 ? "" : "s");
  const auto dot = key.rfind('.');
  const std::string name = dot == key.npos ? key : key.substr(dot + 1);
  return fmt::format("{}={}", name == "name" ? key : name, unquoted(value));
}

/// Cells that still have the same label.
std::vector<std::vector<std::size_t>> alike(const Study& study) {
  std::map<std::string, std::vector<std::size_t>> cells;
  for (std::size_t i = 0; i < study.cells.size(); ++i)
    cells[study.cells[i].label].push_back(i);
  std::vector<std::vector<std::size_t>> groups;
  for (auto& [label, group] : cells)
    if (group.size() > 1) groups.push_back(std::move(group));
  return groups;
}

std::vector<std::string> axes_by_worth(const std::vector<std::string>& axes) {
  std::vector<std::string> sorted = axes;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const std::string& a, const std::string& b) {
                     const auto worth = [](const std::string& key) {
                       return std::find(kToldFirst.begin(), kToldFirst.end(),
                                        key) -
                              kToldFirst.begin();
                     };
                     return worth(a) < worth(b);
                   });
  return sorted;
}

/// What the label of a cell would say of an axis; empty where it has none.
std::string part_of(const Study& study, const std::vector<Leaves>& leaves,
                    std::size_t cell, const std::string& axis) {
  const std::string value = value_in(leaves[cell], axis);
  return value.empty() ? "" : told(axis, value, study.cells[cell]);
}

/// The axis whose parts tell apart most of the cells; empty: none does.
std::string best_axis(const Study& study, const std::vector<Leaves>& leaves,
                      const std::vector<std::size_t>& group) {
  std::string best;
  std::size_t most = 1;
  for (const std::string& axis : axes_by_worth(study.axes)) {
    std::set<std::string> parts;
    for (const std::size_t cell : group)
      parts.insert(part_of(study, leaves, cell, axis));
    if (parts.size() <= most) continue;
    most = parts.size();
    best = axis;
  }
  return best;
}

void add_to_labels(Study& study, const std::vector<Leaves>& leaves,
                   const std::vector<std::size_t>& group,
                   const std::string& axis) {
  for (const std::size_t cell : group)
    if (const std::string part = part_of(study, leaves, cell, axis);
        !part.empty())
      study.cells[cell].label += ", " + part;
}

/// Adds to labels that are alike until they are not. Cells that no axis tells
/// apart get numbers.
void tell_apart(Study& study, const std::vector<Leaves>& leaves) {
  for (auto groups = alike(study); !groups.empty(); groups = alike(study))
    for (const auto& group : groups) {
      const std::string axis = best_axis(study, leaves, group);
      if (!axis.empty()) {
        add_to_labels(study, leaves, group, axis);
        continue;
      }
      for (const std::size_t cell : group)
        study.cells[cell].label += fmt::format(" ({})", study.cells[cell].id);
    }
}

}  // namespace

ConfigNode numbers_of_cell(const ConfigNode& config) {
  ConfigNode numbers = numbers_of(config);
  auto* table = std::get_if<ConfigNode::Table>(&numbers.value);
  if (table == nullptr) return numbers;
  std::erase_if(*table,
                [](const auto& entry) { return entry.first == "seed"; });
  for (auto& [name, node] : *table)
    if (auto* data = std::get_if<ConfigNode::Table>(&node.value);
        name == "data" && data != nullptr)
      std::erase_if(*data, [](const auto& entry) {
        return is_unused_split(entry.first, entry.second);
      });
  return numbers;
}

void label_cells(Study& study) {
  std::vector<Leaves> leaves;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < study.cells.size(); ++i) {
    StudyCell& cell = study.cells[i];
    leaves.push_back(leaves_of(cell));
    all.push_back(i);
    cell.id = fmt::format("{:03}", i + 1);
    cell.label = cell.method;
  }
  study.axes = axes_of(leaves);
  for (const std::string_view key : kAlwaysTold) {
    const auto axis = std::find(study.axes.begin(), study.axes.end(), key);
    if (axis != study.axes.end()) add_to_labels(study, leaves, all, *axis);
  }
  tell_apart(study, leaves);
  for (std::size_t i = 0; i < study.cells.size(); ++i)
    for (const std::string& axis : study.axes)
      study.cells[i].values.push_back(unquoted(value_in(leaves[i], axis)));
}

}  // namespace sluice::report
