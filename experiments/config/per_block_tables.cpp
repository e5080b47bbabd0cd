#include "experiments/config/per_block_tables.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/files/common_keys.h"
#include "experiments/config/files/extends.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr const char* kLast = "last";

bool is_number(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

/// Whether the digits are those of a number from 1 to count.
bool is_one_of(const std::string& digits, std::int64_t count) {
  for (std::int64_t number = 1; number <= count; ++number)
    if (digits == std::to_string(number)) return true;
  return false;
}

/// The digits cut short: a number may have hundreds.
std::string short_digits(const std::string& digits) {
  constexpr std::size_t kMost = 20;
  return fmt::format("{}{}", std::string_view(digits).substr(0, kMost),
                     digits.size() > kMost ? "..." : "");
}

std::string how_many(std::int64_t count) {
  if (count == 0) return "there is none";
  if (count == 1) return "there is only number 1";
  return fmt::format("there are only numbers 1 to {}", count);
}

/// The part of a table under a dotted path of keys; nullptr: it isn't there.
const ConfigNode* node_at(const ConfigNode* node, std::string_view path) {
  while (node != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find_first_of(".["), path.size());
    node = node->find(path.substr(0, dot));
    if (dot == path.size() || path[dot] == '[') return node;
    path.remove_prefix(dot + 1);
  }
  return node;
}

}  // namespace

std::string as_written(std::string message, const ConfigNode* table,
                       std::string_view path, std::int64_t number,
                       std::int64_t count) {
  const std::string digits = std::to_string(number);
  const std::string numbered_path = fmt::format("{}.{}.", path, digits);
  const std::size_t at = message.find(numbered_path);
  if (at == std::string::npos) return message;
  const std::size_t begin = at + numbered_path.size();
  const std::size_t end =
      std::min(message.find_first_of("': ", begin), message.size());
  const std::string key = message.substr(begin, end - begin);
  const ConfigNode* common = node_at(table, key);
  const auto says = [&](std::string_view name) {
    const ConfigNode* own = table == nullptr ? nullptr : table->find(name);
    const ConfigNode* mine = node_at(own, key);
    if (mine == nullptr || common == nullptr)
      return own != nullptr && (mine != nullptr || common == nullptr);
    return !repeats_common(*mine, *common);
  };
  if (says(digits)) return message;
  const std::size_t where = begin - digits.size() - 1;
  if (number == count && says(kLast))
    return message.replace(where, digits.size(), kLast);
  return message.erase(where, digits.size() + 1);
}

namespace {

/// Whether the table of `number` repeats the common key.
bool has_common_key(const ConfigNode* table, std::int64_t number,
                    std::int64_t count, std::string_view key,
                    const ConfigNode& common) {
  for (const std::string& name : {std::to_string(number), std::string(kLast)}) {
    if (name == kLast && number != count) continue;
    const ConfigNode* own = table->find(name);
    const ConfigNode* mine = own == nullptr ? nullptr : own->find(key);
    if (mine != nullptr && repeats_common(*mine, common)) return true;
  }
  return false;
}

/// What is written in a table by block: one that is split by whom it is for.
class SplitTable {
 public:
  SplitTable(const ConfigNode* table, std::int64_t count,
             const NumberedKeys& keys, std::string_view path)
      : table_(table), count_(count), keys_(keys), path_(path) {
    common_.value = ConfigNode::Table{};
    if (table != nullptr) common_.origin = table->origin;
    shared_ = common_;
    if (table != nullptr) split();
  }

  PerBlockTables explicit_tables() {
    PerBlockTables result{.tables = {ConfigNode::Table{}, common_.origin}};
    const ConfigNode all = merged(shared_, common_);
    bool common_is_used = count_ == 0;
    for (std::int64_t number = 1; number <= count_; ++number) {
      const std::optional<ConfigNode> own = own_of(number);
      const bool alone = own && !keys_.fresh.empty() && own->find(keys_.fresh);
      common_is_used = common_is_used || !alone;
      result.tables.set(std::to_string(number),
                        !own ? all : merged(alone ? shared_ : all, *own));
    }
    if (!common_is_used) refuse_common();
    result.ignored = std::move(ignored_);
    return result;
  }

 private:
  void split() {
    const auto* written = std::get_if<ConfigNode::Table>(&table_->value);
    if (written == nullptr)
      throw UserError("{}: {}: expected a table, found {}",
                      table_->origin.text(), path_, table_->describe());
    for (const auto& [key, value] : *written) {
      if (key == kLast) continue;
      if (!is_number(key))
        (key == keys_.shared ? shared_ : common_).set(key, value);
      else if (!is_one_of(key, count_))
        refuse(value, short_digits(key), how_many(count_));
    }
  }

  /// Refuses a value, unless it was meant for another number of blocks.
  void refuse(const ConfigNode& value, std::string_view key,
              const std::string& why) {
    std::string text =
        fmt::format("{}: {}.{}: {}", value.origin.text(), path_, key, why);
    if (value.layer() >= keys_.recut_in) throw UserError("{}", text);
    ignored_.push_back(std::move(text));
  }

  /// A later layer has said it to all numbered tables too.
  bool is_in_some(const std::string& key, const ConfigNode& value) const {
    for (std::int64_t number = 1; number <= count_; ++number)
      if (has_common_key(table_, number, count_, key, value)) return true;
    return false;
  }

  void refuse_common() {
    for (const auto& [key, value] : std::get<ConfigNode::Table>(common_.value))
      if (!is_in_some(key, value))
        refuse(value, key,
               fmt::format(
                   "nothing takes this key: each numbered table names its own "
                   "{}, and then takes no other common key",
                   keys_.fresh));
  }

  std::optional<ConfigNode> own_of(std::int64_t number) const {
    if (table_ == nullptr) return std::nullopt;
    const std::string key = std::to_string(number);
    const ConfigNode* own = table_->find(key);
    const ConfigNode* last = number == count_ ? table_->find(kLast) : nullptr;
    if (own == nullptr && last == nullptr) return std::nullopt;
    if (own == nullptr || last == nullptr) return own ? *own : *last;
    return both(*own, *last, key, "");
  }

  /// Table that is given by number and as `last`: later layers win.
  ConfigNode both(const ConfigNode& own, const ConfigNode& last,
                  const std::string& number, const std::string& below) const {
    const auto* table = std::get_if<ConfigNode::Table>(&last.value);
    if (table == nullptr ||
        !std::holds_alternative<ConfigNode::Table>(own.value)) {
      const ConfigNode* common =
          below.empty() ? nullptr : node_at(table_, below.substr(1));
      if (common != nullptr && repeats_common(own, *common)) return last;
      if (common != nullptr && repeats_common(last, *common)) return own;
      if (own.layer() == last.layer())
        throw UserError(
            "{}: {}.last{}: here {}.{} is the last one, and says it too ({}); "
            "say it once",
            last.origin.text(), path_, below, path_, number, own.origin.text());
      return merged_in_order(own, last);
    }
    ConfigNode result = own;
    for (const auto& [key, node] : *table) {
      const ConfigNode* other = own.find(key);
      result.set(key,
                 other ? both(*other, node, number, below + "." + key) : node);
    }
    return result;
  }

  static ConfigNode merged_in_order(const ConfigNode& a, const ConfigNode& b) {
    return a.layer() < b.layer() ? merged(a, b) : merged(b, a);
  }

  const ConfigNode* table_;
  std::int64_t count_;
  NumberedKeys keys_;
  std::string path_;
  ConfigNode common_;
  ConfigNode shared_;
  std::vector<std::string> ignored_;
};

}  // namespace

namespace {

/// The layer in which the table of a number was written; nothing: it wasn't.
std::optional<int> layer_of_own(const ConfigNode* table, std::int64_t number,
                                std::int64_t count) {
  std::optional<int> layer;
  for (const std::string& name : {std::to_string(number), std::string(kLast)}) {
    const ConfigNode* own = table == nullptr ? nullptr : table->find(name);
    if (own != nullptr && (name != kLast || number == count))
      layer = std::max(layer.value_or(0), own->origin.layer);
  }
  return layer;
}

/// Removes what is written under a dotted path.
bool erase_at(ConfigNode& node, std::string_view path) {
  auto* table = std::get_if<ConfigNode::Table>(&node.value);
  if (table == nullptr) return false;
  const std::size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  if (dot == std::string_view::npos)
    return std::erase_if(*table, [&](const auto& entry) {
             return entry.first == key;
           }) > 0;
  for (auto& [name, below] : *table)
    if (name == key) return erase_at(below, path.substr(dot + 1));
  return false;
}

}  // namespace

bool leave_out_common(std::string_view unknown, const ConfigNode* table,
                      std::string_view path, std::int64_t number,
                      std::int64_t count, ConfigNode& tables) {
  const std::string before = fmt::format("{}.{}.", path, number);
  if (!unknown.starts_with(before)) return false;
  const std::string_view key = unknown.substr(before.size());
  const ConfigNode* common = node_at(table, key);
  const std::optional<int> layer = layer_of_own(table, number, count);
  if (common == nullptr || !layer || common->layer() <= *layer) return false;
  return erase_at(tables, unknown.substr(path.size() + 1));
}

PerBlockTables per_block_tables(const ConfigNode* table, std::int64_t count,
                                const NumberedKeys& keys,
                                std::string_view path) {
  return SplitTable(table, count, keys, path).explicit_tables();
}

}  // namespace sluice
