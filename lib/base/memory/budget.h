#pragma once

#include <atomic>
#include <cstddef>

namespace sluice {

/// Counts the big blocks of the process: how much is mapped, how much of it is
/// in use. The difference is cached. Any thread may call.
class MemoryBudget {
 public:
  /// What may be mapped without regard to the peak, bytes.
  static constexpr std::size_t kSlackBytes = std::size_t{256} << 20;

  void mapped(std::size_t bytes);
  void unmapped(std::size_t bytes);
  void taken(std::size_t bytes);
  void given_back(std::size_t bytes);

  std::size_t mapped_bytes() const;
  std::size_t live_bytes() const;

  /// How many cached bytes should go before `more` are mapped: what is mapped
  /// shall stay below 1.5 times the most that was in use at once, plus
  /// kSlackBytes. So the cache follows the program and needs no setting.
  std::size_t excess(std::size_t more) const;

  /// Forgets how much was in use at once in the past.
  void reset_peak();

 private:
  std::atomic<std::size_t> mapped_ = 0;
  std::atomic<std::size_t> live_ = 0;
  std::atomic<std::size_t> peak_ = 0;
};

}  // namespace sluice
