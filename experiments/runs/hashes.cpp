#include "experiments/runs/hashes.h"

#include <algorithm>
#include <fstream>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// When the record was written is no part of it.
std::string differing_name(const Record& left, const Record& right) {
  for (const auto& [name, value] : left.values) {
    if (name == "time") continue;
    const Record::Value* other = right.find(name);
    if (other == nullptr || *other != value) return name;
  }
  return left.values.size() == right.values.size() ? "" : "number of tensors";
}

std::optional<HashDifference> difference_of(int block,
                                            const std::vector<Record>& left,
                                            const std::vector<Record>& right) {
  const std::size_t both = std::min(left.size(), right.size());
  for (std::size_t i = 0; i < both; ++i) {
    const std::string name = differing_name(left[i], right[i]);
    if (!name.empty())
      return HashDifference{left[i].integer("turn"), block, name};
  }
  if (left.size() == right.size()) return std::nullopt;
  return HashDifference{
      static_cast<std::int64_t>(both), block,
      fmt::format("{} updates against {}", left.size(), right.size())};
}

}  // namespace

Hashes read_hashes(const std::string& metrics_file) {
  std::ifstream file(metrics_file);
  if (!file) throw UserError("{}: can't be read", metrics_file);
  Hashes hashes;
  for (std::string line; std::getline(file, line);) {
    Record record = record_from_json(line);
    if (record.text("kind") != "hash") continue;
    const auto block = static_cast<int>(record.number("block", 0));
    hashes[block].push_back(std::move(record));
  }
  return hashes;
}

std::string to_text(const HashDifference& difference) {
  return fmt::format("turn {}, block {}: {}", difference.turn, difference.block,
                     difference.name);
}

std::optional<HashDifference> first_difference(const Hashes& left,
                                               const Hashes& right) {
  std::optional<HashDifference> first;
  for (const auto& [block, records] : left) {
    const auto other = right.find(block);
    const auto found = difference_of(
        block, records,
        other == right.end() ? std::vector<Record>() : other->second);
    if (found && (!first || found->turn <= first->turn)) first = found;
  }
  return first;
}

}  // namespace sluice
