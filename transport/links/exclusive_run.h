#pragma once

#include <atomic>

namespace sluice {

/// Work that one thread at a time does and for which nobody waits: who finds it
/// taken leaves word and goes; who has it then does it once more.
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
