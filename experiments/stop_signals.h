#pragma once

#include <csignal>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice {

/// While it lives, SIGINT and SIGTERM call what on_stop() was given, from a
/// thread of its own; a second signal, or one when nothing was given, ends the
/// process at once. Make it before other threads are there: they inherit its
/// mask, and one without it would let the signal end the process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void on_stop(std::function<void()> stop);

 private:
  void watch(const std::stop_token& over);
  void stop_or_exit();

  sigset_t before_ = {};
  std::mutex mutex_;  // guards stop_
  std::function<void()> stop_;
  std::jthread thread_;
};

/// Where a signal stops what lives as long as this.
class StopScope {
 public:
  StopScope(StopSignals& signals, std::function<void()> stop)
      : signals_(signals) {
    signals_.on_stop(std::move(stop));
  }
  ~StopScope() { signals_.on_stop(nullptr); }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  StopSignals& signals_;
};

}  // namespace sluice
