#include "experiments/numbered.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "experiments/config/extends.h"
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

}  // namespace

ConfigNode numbered(const ConfigNode* table, std::int64_t count,
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
        throw UserError("{}: {}.{}: there are only {} of them, numbered from 1",
                        value.origin.text(), path, key, count);
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
