#include "lib/schedules/replicas/batch_set.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "lib/base/error.h"

namespace sluice {

bool BatchSet::insert(std::int64_t batch) {
  auto after = parts_.upper_bound(batch);
  const bool has_before = after != parts_.begin();
  const auto before = has_before ? std::prev(after) : parts_.end();
  if (has_before && batch < before->second) return false;
  std::int64_t end = batch + 1;
  if (after != parts_.end() && after->first == end) {
    end = after->second;
    parts_.erase(after);
  }
  if (has_before && before->second == batch)
    before->second = end;
  else
    parts_.emplace(batch, end);
  return true;
}

std::vector<std::int64_t> BatchSet::bounds() const {
  std::vector<std::int64_t> all;
  for (const auto& [begin, end] : parts_) all.insert(all.end(), {begin, end});
  return all;
}

void BatchSet::restore(const std::vector<std::int64_t>& bounds) {
  const auto not_ascending =
      std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>());
  if (bounds.size() % 2 != 0 || not_ascending != bounds.end())
    throw UserError("the batches that a centre has served are damaged");
  parts_.clear();
  for (std::size_t i = 0; i < bounds.size(); i += 2)
    parts_.emplace(bounds[i], bounds[i + 1]);
}

}  // namespace sluice
