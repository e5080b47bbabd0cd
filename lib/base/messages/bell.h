#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sluice {

/// Wakes a thread that waits for whichever of several things happens first.
/// Nothing is missed when it is used so: ask rung(), look whether anything can
/// be done, and if not, wait() with its answer. For any number of threads.
class Bell {
 public:
  void ring();
  /// Number of times that the bell was rung.
  std::uint64_t rung() const;
  /// Waits until the bell has been rung more often than `heard` times; false
  /// when `most` has passed first.
  bool wait(std::uint64_t heard, std::chrono::milliseconds most) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t rung_ = 0;
};

/// A condition variable that rings bells too. The owner's mutex is held in all
/// calls.
class RingingCondition {
 public:
  void add(std::shared_ptr<Bell> bell) { bells_.push_back(std::move(bell)); }
  void notify_all();
  /// Waits until `done()`; false when `most` has passed first.
  template <class Most, class Done>
  bool wait_for(std::unique_lock<std::mutex>& lock, const Most& most,
                Done done) {
    return changed_.wait_for(lock, most, done);
  }

 private:
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Bell>> bells_;
};

}  // namespace sluice
