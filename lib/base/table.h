#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/nearest.h"

namespace sluice {

/// A row of a visible table of plug-ins: what `sluice list` prints, and what
/// makes the thing. A newcomer's addition is one row.
template <class Make>
struct Row {
  std::string_view name;
  std::string_view summary;
  Make make;
};

template <class Make>
std::vector<std::string> names_of(std::span<const Row<Make>> rows) {
  std::vector<std::string> names;
  for (const Row<Make>& row : rows) names.emplace_back(row.name);
  return names;
}

/// The row of that name. Throws UserError with all names and the nearest one;
/// `what` names the kind of thing ("auxiliary head").
template <class Make>
const Row<Make>& find_row(std::span<const Row<Make>> rows,
                          std::string_view name, std::string_view what) {
  for (const Row<Make>& row : rows)
    if (row.name == name) return row;
  const std::vector<std::string> names = names_of(rows);
  throw UserError("unknown {} '{}'{}; there are: {}", what, name,
                  perhaps(name, names), joined(names));
}

}  // namespace sluice
