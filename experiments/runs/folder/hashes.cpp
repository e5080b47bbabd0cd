#include "experiments/runs/folder/hashes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "experiments/runs/folder/run_reader.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

std::string differing_name(const records::Hash& left,
                           const records::Hash& right) {
  if (left.turn != right.turn) return "turn";
  if (left.batch != right.batch) return "batch";
  const std::map<std::string, std::string> others(right.tensors.begin(),
                                                  right.tensors.end());
  for (const auto& [name, hash] : left.tensors) {
    const auto other = others.find(name);
    if (other == others.end() || other->second != hash) return name;
  }
  return left.tensors.size() == right.tensors.size() ? "" : "number of tensors";
}

std::optional<HashDifference> difference_of(
    const HashedSeat& seat, const std::vector<records::Hash>& left,
    const std::vector<records::Hash>& right) {
  const std::size_t both = std::min(left.size(), right.size());
  for (std::size_t i = 0; i < both; ++i) {
    const std::string name = differing_name(left[i], right[i]);
    if (!name.empty())
      return HashDifference{left[i].turn, seat.first, name, seat.second};
  }
  if (left.size() == right.size()) return std::nullopt;
  return HashDifference{
      static_cast<std::int64_t>(both), seat.first,
      fmt::format("{} updates against {}", left.size(), right.size()),
      seat.second};
}

}  // namespace

Hashes read_hashes(const std::string& run_folder) {
  Hashes hashes;
  for (records::Hash& hash : RunReader(run_folder).next<records::Hash>())
    hashes[{hash.block, hash.replica.value_or(1)}].push_back(std::move(hash));
  if (hashes.empty())
    throw UserError(
        "{}: its metrics.jsonl has no hashes: run it with hashes = "
        "true",
        run_folder);
  return hashes;
}

std::string to_text(const HashDifference& difference) {
  const std::string replica =
      difference.replica == 1
          ? ""
          : fmt::format(" of replica {}", difference.replica);
  return fmt::format("turn {}, block {}{}: {}", difference.turn,
                     difference.block, replica, difference.name);
}

std::optional<HashDifference> first_difference(const Hashes& left,
                                               const Hashes& right) {
  std::optional<HashDifference> first;
  for (const auto& [seat, records] : left) {
    const auto other = right.find(seat);
    const auto found = difference_of(
        seat, records,
        other == right.end() ? std::vector<records::Hash>() : other->second);
    if (found && (!first || found->turn <= first->turn)) first = found;
  }
  return first;
}

}  // namespace sluice
