#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace sluice {

/// While it lives, SIGINT and SIGTERM call `stop` from a thread of its own
/// (once; a second signal ends the process at once) instead of ending the
/// process. Make it before other threads, which inherit the mask.
class StopSignals {
 public:
  explicit StopSignals(std::function<void()> stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  sigset_t before_ = {};
  std::jthread thread_;
};

}  // namespace sluice
