#pragma once

#include <atomic>

namespace sluice {

/// Work that one thread at a time does, and that no thread waits for: a thread
/// that finds it taken sets a flag and returns; the one that has it then does
/// it once more.
class ExclusiveRun {
 public:
  /// `work` does all that there is to do, and must not throw.
  template <class Work>
  void run(Work work) {
    wanted_ = true;
    while (wanted_ && !taken_.exchange(true)) {
      wanted_ = false;
      work();
      taken_ = false;
    }
  }

 private:
  std::atomic<bool> wanted_ = false;
  std::atomic<bool> taken_ = false;
};

}  // namespace sluice
