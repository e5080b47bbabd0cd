#include "experiments/config/files/common_keys.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "experiments/config/files/extends.h"
#include "experiments/config/files/run_config.h"

namespace sluice {
namespace {

/// A table with keys for all blocks, and the key with which a numbered table
/// leaves the common ones; but for `shared`, which it takes all the same.
struct NumberedTable {
  std::string_view path;
  std::string_view fresh;
  std::string_view shared;
};
constexpr std::array kNumbered = {NumberedTable{"boundary", "policy", "codec"},
                                  NumberedTable{"optimizer", "name", ""}};

ConfigNode::Table* table_in(ConfigNode& node) {
  return std::get_if<ConfigNode::Table>(&node.value);
}

const ConfigNode::Table* table_in(const ConfigNode& node) {
  return std::get_if<ConfigNode::Table>(&node.value);
}

ConfigNode* find_in(ConfigNode& node, std::string_view key) {
  ConfigNode::Table* table = table_in(node);
  if (table == nullptr) return nullptr;
  const auto found =
      std::find_if(table->begin(), table->end(),
                   [&](const auto& entry) { return entry.first == key; });
  return found == table->end() ? nullptr : &found->second;
}

/// What is written under a dotted path; nullptr: nothing. `is_blocked`: a value
/// that is no table stands in the way.
const ConfigNode* find_path(const ConfigNode& root, std::string_view path,
                            bool* is_blocked = nullptr) {
  const ConfigNode* node = &root;
  while (node != nullptr && !path.empty()) {
    if (is_blocked != nullptr && table_in(*node) == nullptr) *is_blocked = true;
    const std::size_t dot = std::min(path.find('.'), path.size());
    node = node->find(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return node;
}

/// The numbered table that a common key is of, and the key: "clip.norm".
struct CommonKey {
  NumberedTable table;
  std::string_view key;
};

std::optional<CommonKey> common_key(std::string_view path) {
  for (const NumberedTable& table : kNumbered) {
    if (!path.starts_with(table.path) || path.size() <= table.path.size() ||
        path[table.path.size()] != '.')
      continue;
    const std::string_view key = path.substr(table.path.size() + 1);
    if (names_one_block(key.substr(0, key.find('.')))) return std::nullopt;
    return CommonKey{table, key};
  }
  return std::nullopt;
}

/// Whether the block's own value is of the new key's layer, or of a later one.
/// A value that the command line repeats keeps the layer of the earlier one.
bool is_as_late(const ConfigNode& own, const ConfigNode& node) {
  const bool is_typed = node.origin.layer == kCommandLineLayer &&
                        own.origin.file == node.origin.file;
  return is_typed || own.layer() >= node.layer();
}

void lay_over_one(ConfigNode& own, const CommonKey& common,
                  const ConfigNode& node,
                  const std::optional<ConfigNode>& before) {
  bool is_blocked = false;
  const ConfigNode* there = find_path(own, common.key, &is_blocked);
  if (is_blocked) return;
  if (there == nullptr) {
    if (own.find(common.table.fresh) != nullptr) own.set_path(common.key, node);
    return;
  }
  const bool was_common = before && repeats_common(*there, *before);
  if (was_common || !is_as_late(*there, node)) own.set_path(common.key, node);
}

/// `said`: what the later layer itself says there; nullptr: nothing.
void lay_over(ConfigNode& own, std::string_view key, const ConfigNode& node,
              const ConfigNode* said, bool is_fresh) {
  const ConfigNode* mine = said == nullptr ? nullptr : said->find(key);
  ConfigNode* there = find_in(own, key);
  if (there == nullptr) {
    if (is_fresh) own.set(key, node);
  } else if (table_in(*there) != nullptr && table_in(node) != nullptr) {
    for (const auto& [name, below] : *table_in(node))
      lay_over(*there, name, below, mine, is_fresh);
  } else if (mine == nullptr) {
    own.set(key, node);
  }
}

void hold_for_all(const NumberedTable& table, const ConfigNode& base,
                  const ConfigNode& over, ConfigNode& result) {
  for (auto& [number, own] : *table_in(result)) {
    if (!names_one_block(number) || base.find(number) == nullptr) continue;
    const ConfigNode* said = over.find(number);
    if (said != nullptr && said->find(table.fresh) != nullptr) continue;
    const bool is_fresh = own.find(table.fresh) != nullptr;
    for (const auto& [key, node] : *table_in(over))
      if (!names_one_block(key)) lay_over(own, key, node, said, is_fresh);
  }
}

ConfigNode shared_by(const ConfigNode& one, const ConfigNode& other) {
  ConfigNode both = {ConfigNode::Table{}, one.origin};
  for (const auto& [key, node] : *table_in(one)) {
    const ConfigNode* same = other.find(key);
    if (same == nullptr) continue;
    if (table_in(node) != nullptr && table_in(*same) != nullptr)
      both.set(key, shared_by(node, *same));
    else if (node == *same)
      both.set(key, node);
  }
  return both;
}

ConfigNode without(const ConfigNode& one, const ConfigNode& common) {
  ConfigNode rest = {ConfigNode::Table{}, one.origin};
  for (const auto& [key, node] : *table_in(one)) {
    const ConfigNode* same = common.find(key);
    if (same != nullptr && node == *same) continue;
    if (same == nullptr || table_in(node) == nullptr ||
        table_in(*same) == nullptr) {
      rest.set(key, node);
      continue;
    }
    ConfigNode below = without(node, *same);
    if (!table_in(below)->empty()) rest.set(key, std::move(below));
  }
  return rest;
}

/// What all tables of a resolved config share; of those that name different
/// policies or rules only what they take beside their own name.
ConfigNode shared_by_all(const ConfigNode::Table& tables,
                         const NumberedTable& kind) {
  ConfigNode common = tables.front().second;
  for (const auto& [number, one] : tables) common = shared_by(common, one);
  if (common.find(kind.fresh) == nullptr)
    std::erase_if(*table_in(common), [&](const auto& entry) {
      return entry.first != kind.shared;
    });
  return common;
}

/// Whether each key is a number, and each value a table.
bool is_resolved(const ConfigNode::Table& tables) {
  return std::all_of(tables.begin(), tables.end(), [](const auto& entry) {
    return names_one_block(entry.first) && entry.first != "last" &&
           table_in(entry.second) != nullptr;
  });
}

}  // namespace

bool names_one_block(std::string_view key) {
  return key == "last" ||
         (!key.empty() &&
          key.find_first_not_of("0123456789") == std::string_view::npos);
}

bool is_of_one_block(std::string_view path) {
  return std::any_of(kNumbered.begin(), kNumbered.end(),
                     [&](const NumberedTable& table) {
                       return path.starts_with(table.path) &&
                              path.substr(table.path.size()).starts_with('.');
                     }) &&
         !common_key(path);
}

bool repeats_common(const ConfigNode& own, const ConfigNode& common) {
  if (const ConfigNode::Table* table = table_in(common))
    return table_in(own) != nullptr &&
           std::all_of(table->begin(), table->end(), [&](const auto& entry) {
             const ConfigNode* below = own.find(entry.first);
             return below != nullptr && repeats_common(*below, entry.second);
           });
  return own.origin.file == common.origin.file &&
         own.origin.line == common.origin.line && own == common;
}

void set_for_all(ConfigNode& root, std::string_view path, ConfigNode node) {
  const std::optional<CommonKey> common = common_key(path);
  if (!common) return root.set_path(path, std::move(node));
  const ConfigNode* old = find_path(root, path);
  const auto before = old == nullptr ? std::nullopt : std::optional(*old);
  root.set_path(path, node);
  for (auto& [number, own] : *table_in(*find_in(root, common->table.path)))
    if (names_one_block(number) && table_in(own) != nullptr)
      lay_over_one(own, *common, node, before);
}

void hold_for_all(const ConfigNode& base, const ConfigNode& over,
                  ConfigNode& result) {
  for (const NumberedTable& table : kNumbered) {
    const ConfigNode* before = base.find(table.path);
    const ConfigNode* after = over.find(table.path);
    ConfigNode* both = find_in(result, table.path);
    if (before == nullptr || after == nullptr || both == nullptr ||
        table_in(*before) == nullptr || table_in(*after) == nullptr)
      continue;
    hold_for_all(table, *before, *after, *both);
  }
}

ConfigNode with_common_keys(ConfigNode resolved) {
  for (const NumberedTable& kind : kNumbered) {
    ConfigNode* written = find_in(resolved, kind.path);
    ConfigNode::Table* tables =
        written == nullptr ? nullptr : table_in(*written);
    if (tables == nullptr || tables->empty() || !is_resolved(*tables)) continue;
    ConfigNode common = shared_by_all(*tables, kind);
    ConfigNode::Table own;
    for (const auto& [number, one] : *tables) {
      ConfigNode rest = without(one, common);
      if (!table_in(rest)->empty()) own.emplace_back(number, std::move(rest));
    }
    *tables = std::move(*table_in(common));
    tables->insert(tables->end(), own.begin(), own.end());
  }
  return resolved;
}

ConfigNode read_config_to_run(const std::string& path,
                              std::span<const std::string> overrides) {
  ConfigNode config = read_config_file(path);
  const bool is_cut_anew = std::any_of(
      overrides.begin(), overrides.end(),
      [](const std::string& text) { return text.starts_with("blocks="); });
  if (!is_cut_anew || !is_config_of_run(path)) return config;
  return with_common_keys(std::move(config));
}

}  // namespace sluice
