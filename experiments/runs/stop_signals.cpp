#include "experiments/runs/stop_signals.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

/// `timeout` sends a signal to the process and then to its group, launchers of
/// ranks may send it twice: that means it once.
constexpr std::chrono::seconds kTogether(1);

constexpr std::string_view kNotice =
    "Stopping, with a checkpoint, after the turns that have been granted. Once "
    "more: at once, without.";

sigset_t stopping_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals(Second second) : second_(second) {
  const sigset_t set = stopping_signals();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  thread_ = std::jthread([this](const std::stop_token& over) { watch(over); });
}

StopSignals::~StopSignals() {
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignals::on_stop(std::function<void()> stop, std::string notice) {
  const std::lock_guard lock(mutex_);
  stop_ = std::move(stop);
  notice_ = std::move(notice);
}

void StopSignals::stop_or_exit() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  const bool is_stopped = stopped_ != std::chrono::steady_clock::time_point();
  if (is_stopped && (second_ == Second::ignored || now - stopped_ < kTogether))
    return;
  if (!stop_) std::_Exit(kInterruptedStatus);
  stopped_ = now;
  fmt::print(stderr, "\n{}\n", notice_.empty() ? kNotice : notice_);
  stop_();
  stop_ = nullptr;
}

void StopSignals::watch(const std::stop_token& over) {
  const sigset_t set = stopping_signals();
  while (!over.stop_requested()) {
    const timespec period{.tv_sec = 0, .tv_nsec = 100'000'000};
    if (sigtimedwait(&set, nullptr, &period) > 0) stop_or_exit();
  }
}

}  // namespace sluice
