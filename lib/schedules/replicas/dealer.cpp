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
  std::vector<std::int64_t>& held = held_[replica];
  // Blocks go by numbers: one that is dealt again would overtake those that are
  // under way.
  if (held.empty() && !returned_.empty() && *returned_.begin() < end) {
    held.push_back(*returned_.begin());
    returned_.erase(returned_.begin());
  } else if (next_ && *next_ < end) {
    held.push_back((*next_)++);
  } else {
    return std::nullopt;
  }
  return held.back();
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

}  // namespace sluice
