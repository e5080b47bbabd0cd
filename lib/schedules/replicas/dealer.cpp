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
  held_[replica].push_back(*batch);
  return batch;
}

void Dealer::took(int replica, std::int64_t batch) {
  std::vector<std::int64_t>& held = held_[replica];
  const auto found = std::find(held.begin(), held.end(), batch);
  if (found != held.end()) held.erase(held.begin(), found + 1);
}

std::int64_t Dealer::take_back(int replica) {
  const std::vector<std::int64_t> held = std::exchange(held_[replica], {});
  returned_.insert(held.begin(), held.end());
  return static_cast<std::int64_t>(held.size());
}

DealtBatches Dealer::dealt() const {
  DealtBatches all{.returned = {returned_.begin(), returned_.end()}};
  for (const auto& [replica, batches] : held_)
    for (const std::int64_t batch : batches)
      all.held.emplace_back(replica, batch);
  return all;
}

void Dealer::restore(const DealtBatches& dealt) {
  returned_.insert(dealt.returned.begin(), dealt.returned.end());
  const auto since = std::exchange(held_, {});
  for (const auto& [replica, batch] : dealt.held)
    held_[replica].push_back(batch);
  for (const auto& [replica, batches] : since)
    held_[replica].insert(held_[replica].end(), batches.begin(), batches.end());
}

}  // namespace sluice
