#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace sluice {

/// A row of a table that configs name parts of a run from.
struct ListedPart {
  std::string kind = {};  ///< of the table: "heads"
  std::string name = {};
};

void PrintTo(const ListedPart& part, std::ostream* out);

/// Parts that may hold tensors: the rows of the tables of `sluice list`, but
/// for those that can't, and the types of layers.
std::vector<ListedPart> listed_parts();

/// Config of a small experiment that uses the part, whose data lie on the CPU;
/// texts lie in the folder.
/// Throws UserError for a table of which it knows nothing.
std::string lines_with(const ListedPart& part, const std::string& folder);

}  // namespace sluice
