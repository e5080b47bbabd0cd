#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/stopping_signals.h"

namespace sluice {

/// The exit status of a process that was interrupted, as shells have it.
inline constexpr int kInterruptedStatus = 130;

/// A signal ended a wait before there was anything to save.
class InterruptError final : public Error {
 public:
  using Error::Error;
};

/// While it lives, stopping_signals() call what on_stop() was given, from a
/// thread of its own. A signal when nothing was given ends the process at once;
/// so does a second SIGINT or SIGTERM a second later or more, unless those are
/// `ignored`. SIGPIPE means nothing. Make it before other threads are there:
/// they inherit its mask, and one without it would let the signal end the
/// process. When one has stopped something, those of schedulers stay blocked
/// afterwards.
class StopSignals {
 public:
  enum class SecondSignal { ends, ignored };
  explicit StopSignals(SecondSignal second = SecondSignal::ends);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// `notice` is the line that the user sees; empty: that the run stops, with a
  /// checkpoint.
  void on_stop(std::function<void()> stop, std::string notice = "");

  /// While it is held, signals wait: for what must not end half done.
  [[nodiscard]] std::unique_lock<std::mutex> hold() {
    return std::unique_lock(mutex_);
  }

 private:
  void watch(const std::stop_token& over);
  void stop_or_exit(int signal);
  bool has_stopped() const {
    return stopped_ != std::chrono::steady_clock::time_point();
  }

  const SecondSignal second_;
  const sigset_t signals_ = stopping_signals();
  const PipeErrors pipes_;
  sigset_t before_ = {};
  std::mutex mutex_;  // guards what follows
  std::function<void()> stop_;
  std::string notice_;
  std::chrono::steady_clock::time_point stopped_;  // when it first was
  bool was_urgent_ = false;
  std::jthread thread_;
};

/// Where a signal stops what lives as long as this.
class StopScope {
 public:
  StopScope(StopSignals& signals, std::function<void()> stop,
            std::string notice = "")
      : signals_(signals) {
    signals_.on_stop(std::move(stop), std::move(notice));
  }
  ~StopScope() { signals_.on_stop(nullptr); }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  StopSignals& signals_;
};

}  // namespace sluice
