#include "lib/base/added_rows.h"

#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace sluice::added_rows {
namespace {

struct AddedTables {
  std::mutex mutex;  // guards all below
  /// The last one is in force; the others may still be in use.
  std::map<std::type_index, std::vector<std::shared_ptr<const void>>> tables;
  std::deque<std::string> texts;
};

AddedTables& added_tables() {
  static AddedTables tables;
  return tables;
}

}  // namespace

const void* find(std::type_index type) {
  AddedTables& added = added_tables();
  const std::lock_guard lock(added.mutex);
  const auto found = added.tables.find(type);
  return found == added.tables.end() ? nullptr : found->second.back().get();
}

void store(std::type_index type, std::shared_ptr<const void> table) {
  AddedTables& added = added_tables();
  const std::lock_guard lock(added.mutex);
  added.tables[type].push_back(std::move(table));
}

std::string_view keep(std::string_view text) {
  AddedTables& added = added_tables();
  const std::lock_guard lock(added.mutex);
  return added.texts.emplace_back(text);
}

}  // namespace sluice::added_rows
