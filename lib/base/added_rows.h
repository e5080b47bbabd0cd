#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "lib/base/table.h"

namespace sluice {

// Rows that plug-ins add to the visible tables (heads(), models(), ...).
//
// This is the one state of the process that is written after its start. Tables
// are asked for on every floor, from an optimizer's keys to the heads that a
// head contains: a registry handed down would be an argument of nearly every
// function, and a shared library is loaded once for the whole process anyway.
// So rows are only ever added, a table that was handed out stays as it was and
// valid until the process ends, and any number of threads may add and read.

namespace added_rows {

/// The whole table that was last stored for rows of that type; nullptr: none.
const void* find(std::type_index type);
void store(std::type_index type, std::shared_ptr<const void> table);
/// A copy of the text that lives as long as the process.
std::string_view keep(std::string_view text);

}  // namespace added_rows

/// The built-in rows of a table, and behind them those that were added to it.
template <class Make>
std::span<const Row<Make>> with_added(std::span<const Row<Make>> built_in) {
  const auto* all = static_cast<const std::vector<Row<Make>>*>(
      added_rows::find(typeid(Row<Make>)));
  if (all == nullptr) return built_in;
  return *all;
}

/// Adds a row, whose texts must live as long as the process, to the table that
/// has these rows now. Called by one thread at a time; a name that is there
/// already is the caller's to refuse.
template <class Make>
void add_row(std::span<const Row<Make>> rows, const Row<Make>& row) {
  auto all = std::make_shared<std::vector<Row<Make>>>(rows.begin(), rows.end());
  all->push_back(row);
  added_rows::store(typeid(Row<Make>), std::move(all));
}

}  // namespace sluice
