#include "lib/base/memory/budget.h"

#include <algorithm>

namespace sluice {
namespace {

// The counters are statistics: no other memory access is ordered by them.
constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

void MemoryBudget::mapped(std::size_t bytes) {
  mapped_.fetch_add(bytes, kRelaxed);
}

void MemoryBudget::unmapped(std::size_t bytes) {
  mapped_.fetch_sub(bytes, kRelaxed);
}

void MemoryBudget::taken(std::size_t bytes) {
  const std::size_t live = live_.fetch_add(bytes, kRelaxed) + bytes;
  std::size_t peak = peak_.load(kRelaxed);
  while (live > peak && !peak_.compare_exchange_weak(peak, live, kRelaxed)) {
  }
}

void MemoryBudget::given_back(std::size_t bytes) {
  live_.fetch_sub(bytes, kRelaxed);
}

std::size_t MemoryBudget::mapped_bytes() const {
  return mapped_.load(kRelaxed);
}

std::size_t MemoryBudget::live_bytes() const {
  return live_.load(kRelaxed);
}

std::size_t MemoryBudget::excess(std::size_t more) const {
  const std::size_t peak =
      std::max(peak_.load(kRelaxed), live_.load(kRelaxed) + more);
  const std::size_t limit = peak + peak / 2 + kSlackBytes;
  const std::size_t wanted = mapped_.load(kRelaxed) + more;
  return wanted > limit ? wanted - limit : 0;
}

void MemoryBudget::reset_peak() {
  peak_.store(live_.load(kRelaxed), kRelaxed);
}

}  // namespace sluice
