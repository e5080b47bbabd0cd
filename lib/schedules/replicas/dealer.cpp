#include "lib/schedules/replicas/dealer.h"

#include <algorithm>
#include <utility>

namespace sluice {

void Dealer::open(std::int64_t first, std::int64_t end) {
  if (!next_) next_ = first;
  end_ = std::max(end_, end);
}

std::optional<std::int64_t> Dealer::next(std::int64_t end) const {
  if (!returned_.empty() && *returned_.begin() < end) return *returned_.begin();
  if (next_ && *next_ < end) return next_;
  return std::nullopt;
}

std::optional<std::int64_t> Dealer::deal(int replica, std::int64_t end) {
  const std::optional<std::int64_t> batch = next(end);
  if (!batch) return std::nullopt;
  if (returned_.erase(*batch) == 0) ++*next_;
  held_[replica].insert(*batch);
  return batch;
}

std::int64_t Dealer::take_back(int replica) {
  const std::set<std::int64_t> held = std::exchange(held_[replica], {});
  returned_.insert(held.begin(), held.end());
  return static_cast<std::int64_t>(held.size());
}

}  // namespace sluice
