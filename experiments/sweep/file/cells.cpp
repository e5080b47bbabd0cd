#include "experiments/sweep/file/cells.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/files/common_keys.h"
#include "experiments/sweep/file/cell_label.h"
#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice::sweep {
namespace {

constexpr std::size_t kMostCells = 10'000;

/// The value that a cell has on an axis.
struct Choice {
  ConfigNode value = {};
  std::optional<std::size_t> index = {};  ///< among its values
};

/// The node to which `key` leads in a tree; nullptr: none.
const ConfigNode* find_path(const ConfigNode& root, std::string_view key) {
  const ConfigNode* node = &root;
  while (node != nullptr) {
    const std::size_t dot = key.find('.');
    node = node->find(key.substr(0, dot));
    if (dot == std::string_view::npos) break;
    key.remove_prefix(dot + 1);
  }
  return node;
}

double uniform_in(const Range& range, KeyedRandom& random) {
  if (range.kind == Range::Kind::log_uniform)
    return std::exp(random.uniform(std::log(range.low), std::log(range.high)));
  return random.uniform(range.low, range.high);
}

ConfigNode draw(const Range& range, KeyedRandom& random) {
  if (range.kind != Range::Kind::integer)
    return {.value = uniform_in(range, random)};
  const auto low = static_cast<std::int64_t>(std::ceil(range.low));
  const auto high = static_cast<std::int64_t>(std::floor(range.high));
  const auto count = static_cast<std::uint64_t>(high - low) + 1;
  return {.value = low + static_cast<std::int64_t>(random.below(count))};
}

/// Goes through the axes and chooses; where there is more than one choice, each
/// is a cell.
class Expansion {
 public:
  explicit Expansion(const Sweep& sweep)
      : sweep_(sweep),
        chosen_(sweep.axes.size()),
        is_used_(sweep.axes.size()) {}

  std::vector<Cell> cells() {
    if (sweep_.kind == Sweep::Kind::random) {
      for (; index_ < sweep_.samples; ++index_) expand(0);
    } else {
      expand(0);
    }
    if (!is_random()) refuse_unused();
    return std::move(cells_);
  }

 private:
  bool is_random() const { return sweep_.kind == Sweep::Kind::random; }

  /// Adds the cells that have the choices made so far for the axes before `at`.
  void expand(std::size_t at) {
    if (at == sweep_.axes.size()) return add();
    const Axis& axis = sweep_.axes[at];
    if (!holds(axis)) return expand(at + 1);
    if (find_chosen(axis.key))
      throw UserError("sweep: axis {}: two of its conditions hold at once",
                      axis.key);
    is_used_[at] = true;
    for (Choice& choice : choices(axis)) {
      chosen_[at] = std::move(choice);
      expand(at + 1);
    }
    chosen_[at].reset();
  }

  /// Place of the chosen axis with that key.
  std::optional<std::size_t> find_chosen(const std::string& key) const {
    for (std::size_t i = 0; i < chosen_.size(); ++i)
      if (chosen_[i] && sweep_.axes[i].key == key) return i;
    return std::nullopt;
  }

  bool holds(const Axis& axis) const {
    if (!axis.with.empty() && !find_chosen(axis.with)) return false;
    if (!axis.when) return true;
    const std::string label = label_chosen(axis.when->key);
    const ConfigNode set = settings();
    const ConfigNode* is = find_path(set, axis.when->key);
    const std::vector<ConfigNode>& wanted = axis.when->values;
    return std::any_of(wanted.begin(), wanted.end(), [&](const auto& value) {
      const auto* text = std::get_if<std::string>(&value.value);
      return (is != nullptr && *is == value) ||
             (!label.empty() &&
              (text != nullptr ? *text : value.literal()) == label);
    });
  }

  /// The label of the value chosen on the axis with that key; empty: it has
  /// none.
  std::string label_chosen(const std::string& key) const {
    const auto at = find_chosen(key);
    if (!at || !chosen_[*at]->index || sweep_.axes[*at].labels.empty())
      return "";
    return sweep_.axes[*at].labels.at(*chosen_[*at]->index);
  }

  /// The choices made so far, as a config.
  ConfigNode settings() const {
    ConfigNode config = {.value = ConfigNode::Table{}};
    for (std::size_t i = 0; i < chosen_.size(); ++i)
      if (chosen_[i]) config.set_path(sweep_.axes[i].key, chosen_[i]->value);
    return config;
  }

  std::vector<Choice> choices(const Axis& axis) const {
    std::vector<Choice> all;
    for (std::size_t i = 0; i < axis.values.size(); ++i)
      all.push_back({axis.values[i], i});
    if (!axis.with.empty())
      return {all.at(*chosen_[*find_chosen(axis.with)]->index)};
    if (!is_random()) return all;
    KeyedRandom random(
        random_key({static_cast<std::uint64_t>(sweep_.sample_seed),
                    static_cast<std::uint64_t>(index_), key_part(axis.key)}));
    if (axis.range) return {{draw(*axis.range, random), {}}};
    return {all.at(random.below(all.size()))};
  }

  void add() {
    Cell cell;
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      if (!chosen_[i]) continue;
      const Axis& axis = sweep_.axes[i];
      const auto& [value, index] = *chosen_[i];
      cell.values.emplace_back(axis.key, value);
      cell.texts.push_back(index && !axis.labels.empty()
                               ? axis.labels.at(*index)
                               : value_text(value, axis.values));
    }
    cells_.push_back(std::move(cell));
    if (cells_.size() > kMostCells)
      throw UserError("sweep: more than {} cells; give fewer values",
                      kMostCells);
  }

  void refuse_unused() const {
    for (std::size_t i = 0; i < is_used_.size(); ++i) {
      const Axis& axis = sweep_.axes[i];
      if (!is_used_[i] && axis.when)
        throw UserError(
            "sweep: axis {}: holds in no cell: no axis sets {} to what its "
            "condition wants",
            axis.key, axis.when->key);
    }
  }

  const Sweep& sweep_;
  std::int64_t index_ = 0;
  std::vector<std::optional<Choice>> chosen_;  // by axis
  std::vector<bool> is_used_;                  // by axis
  std::vector<Cell> cells_;
};

std::vector<Cell> listed_cells(const Sweep& sweep) {
  std::map<std::string, std::vector<ConfigNode>> values;
  for (const ListedCell& listed : sweep.cells)
    for (const auto& [key, value] : listed.values) values[key].push_back(value);
  std::vector<Cell> cells;
  for (const ListedCell& listed : sweep.cells) {
    Cell cell{.values = listed.values, .label = listed.label};
    for (const auto& [key, value] : listed.values)
      cell.texts.push_back(value_text(value, values[key]));
    if (!cell.label.empty()) cell.texts = {cell.label};
    cells.push_back(std::move(cell));
  }
  return cells;
}

bool are_same(const Cell& left, const Cell& right) {
  return left.values == right.values;
}

void remove_drawn_twice(std::vector<Cell>& cells) {
  std::vector<Cell> once;
  for (Cell& cell : cells)
    if (std::none_of(once.begin(), once.end(),
                     [&](const Cell& c) { return are_same(c, cell); }))
      once.push_back(std::move(cell));
  cells = std::move(once);
}

void refuse_same(const std::vector<Cell>& cells) {
  for (auto cell = cells.begin(); cell != cells.end(); ++cell)
    if (std::any_of(cells.begin(), cell,
                    [&](const Cell& c) { return are_same(c, *cell); }))
      throw UserError("sweep: the cell '{}' is there twice", cell->label);
}

}  // namespace

std::vector<Cell> cells_of(const Sweep& sweep) {
  const bool is_random = sweep.kind == Sweep::Kind::random;
  std::vector<Cell> cells = sweep.kind == Sweep::Kind::list
                                ? listed_cells(sweep)
                                : Expansion(sweep).cells();
  if (is_random) remove_drawn_twice(cells);
  const std::vector<std::string> names = short_names(keys_of(sweep));
  for (Cell& cell : cells)
    if (cell.label.empty()) cell.label = label_of(cell, keys_of(sweep), names);
  if (is_random) return cells;
  refuse_same(cells);
  return cells;
}

std::vector<std::string> keys_of(const Sweep& sweep) {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& key) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      keys.push_back(key);
  };
  for (const Axis& axis : sweep.axes) add(axis.key);
  for (const ListedCell& cell : sweep.cells)
    for (const auto& [key, value] : cell.values) add(key);
  return keys;
}

ConfigNode config_of(const ConfigNode& shared, const Cell& cell,
                     std::int64_t seed) {
  ConfigNode config = shared;
  for (const bool is_of_one : {false, true})  // within a layer these win
    for (auto [key, value] : cell.values) {
      if (is_of_one_block(key) != is_of_one) continue;
      value.raise(kCellLayer - value.layer());
      if (value.origin.file.empty()) value.origin.file = "sweep";
      set_for_all(config, key, std::move(value));
    }
  config.set("seed", {.value = seed});
  return config;
}

}  // namespace sluice::sweep
