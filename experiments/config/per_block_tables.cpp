#include "experiments/config/per_block_tables.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "experiments/config/files/extends.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

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

/// A number may have hundreds of digits.
std::string short_digits(const std::string& digits) {
  constexpr std::size_t kMost = 20;
  return digits.size() <= kMost ? digits : digits.substr(0, kMost) + "...";
}

std::string how_many(std::int64_t count) {
  if (count == 0) return "there is none";
  if (count == 1) return "there is only 1, numbered from 1";
  return fmt::format("there are only {}, numbered from 1", count);
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
                       std::string_view path, std::int64_t number) {
  const std::string digits = std::to_string(number);
  const std::string numbered_path = fmt::format("{}.{}.", path, digits);
  const std::size_t at = message.find(numbered_path);
  if (at == std::string::npos) return message;
  const std::size_t begin = at + numbered_path.size();
  const std::size_t end =
      std::min(message.find_first_of("': ", begin), message.size());
  const std::string_view key(message.data() + begin, end - begin);
  const ConfigNode* own = table == nullptr ? nullptr : table->find(digits);
  const bool is_own = own != nullptr && (node_at(own, key) != nullptr ||
                                         node_at(table, key) == nullptr);
  if (!is_own) message.erase(begin - digits.size() - 1, digits.size() + 1);
  return message;
}

ConfigNode per_block_tables(const ConfigNode* table, std::int64_t count,
                            const NumberedKeys& keys, std::string_view path) {
  ConfigNode common;
  common.value = ConfigNode::Table{};
  ConfigNode result = common;
  if (table) common.origin = result.origin = table->origin;
  ConfigNode shared = common;
  const auto* written =
      table ? std::get_if<ConfigNode::Table>(&table->value) : nullptr;
  if (table && !written)
    throw UserError("{}: {}: expected a table, found {}", table->origin.text(),
                    path, table->describe());
  if (written)
    for (const auto& [key, value] : *written) {
      if (!is_number(key))
        (key == keys.shared ? shared : common).set(key, value);
      else if (!is_one_of(key, count))
        throw UserError("{}: {}.{}: {}", value.origin.text(), path,
                        short_digits(key), how_many(count));
    }
  const ConfigNode all = merged(shared, common);
  bool common_is_used = count == 0;
  for (std::int64_t number = 1; number <= count; ++number) {
    const std::string key = std::to_string(number);
    const ConfigNode* own = table ? table->find(key) : nullptr;
    const bool alone = own && !keys.fresh.empty() && own->find(keys.fresh);
    common_is_used = common_is_used || !alone;
    result.set(key, !own ? all : merged(alone ? shared : all, *own));
  }
  const auto& unused = std::get<ConfigNode::Table>(common.value);
  if (!common_is_used && !unused.empty())
    throw UserError(
        "{}: {}.{}: nothing takes this key: each numbered table names its own "
        "{}, and then takes no other common key",
        unused.front().second.origin.text(), path, unused.front().first,
        keys.fresh);
  return result;
}

}  // namespace sluice
