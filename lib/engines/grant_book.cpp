#include "lib/engines/grant_book.h"

#include <algorithm>
#include <numeric>

#include "lib/base/by_block.h"
#include "lib/base/error.h"

namespace sluice {

void GrantBook::give(const Grant& grant, std::span<const Batch> batches) {
  kept_.push_back({grant, {batches.begin(), batches.end()}});
  for (const std::size_t all = progress().slowest;
       forgotten_ < all && kept_.size() > 1; ++forgotten_)
    kept_.pop_front();
}

const GrantBook::Entry& GrantBook::at(std::size_t n) const {
  SLUICE_CHECK(n >= forgotten_ && n < given(), "grant {} of {} to {}", n,
               forgotten_, given());
  return kept_[n - forgotten_];
}

std::size_t GrantBook::reach(int block) {
  std::size_t& reached = by_block(reached_, block);
  SLUICE_CHECK(reached < given(), "block {} reached grant {} of {}", block,
               reached, given());
  return reached++;
}

std::size_t GrantBook::reached(int block) const {
  return by_block(reached_, block);
}

std::size_t GrantBook::all_reached() const {
  return std::accumulate(reached_.begin(), reached_.end(), std::size_t{0});
}

bool GrantBook::is_over(int block) const {
  return reached(block) == given() && given() > 0 && kept_.back().grant.finish;
}

CrewProgress GrantBook::progress() const {
  CrewProgress progress{.given = given(), .slowest = given(), .ahead = ahead_};
  for (int block = 1; block <= std::ssize(reached_); ++block) {
    if (left_out_.contains(block)) continue;
    if (!awaited_.contains(block))
      progress.fastest = std::max(progress.fastest, reached(block));
    progress.slowest = std::min(progress.slowest, reached(block));
  }
  return progress;
}

}  // namespace sluice
