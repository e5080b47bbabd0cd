#include "lib/schedules/replicas/dealer.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"

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

void Dealer::took(int replica, std::int64_t batch) {
  std::set<std::int64_t>& held = held_[replica];
  SLUICE_CHECK(
      held.contains(batch),
      "replica {} has made something of batch {}, which it wasn't dealt",
      replica, batch);
  held.erase(batch);
}

std::int64_t Dealer::take_back(int replica) {
  const std::set<std::int64_t> held = std::exchange(held_[replica], {});
  returned_.insert(held.begin(), held.end());
  return static_cast<std::int64_t>(held.size());
}

}  // namespace sluice
