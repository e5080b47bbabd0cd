#pragma once

#include <chrono>

#include "transport/links/file_descriptor.h"

namespace sluice {

/// Wakes the one thread that waits for it after a time that other threads set,
/// and set anew, without waking it: a timerfd.
class Alarm {
 public:
  /// An alarm that is not set. Throws UserError when the system has none left.
  Alarm();

  /// Sets the alarm; what was set before is forgotten. Any thread.
  void set(std::chrono::nanoseconds after) const;
  /// Waits until the alarm goes off.
  void wait() const;

 private:
  FileDescriptor timer_;
};

}  // namespace sluice
