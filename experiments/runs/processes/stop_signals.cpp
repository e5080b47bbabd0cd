#include "experiments/runs/processes/stop_signals.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "lib/base/files/user_text.h"

namespace sluice {
namespace {

/// `timeout` sends a signal to the process and then to its group, launchers of
/// ranks may send it twice: that means it once.
constexpr std::chrono::seconds kTogether(1);

constexpr std::string_view kNotice =
    "Stopping, with a checkpoint, after the turns that have been granted. Once "
    "more: at once, without.";

}  // namespace

StopSignals::StopSignals(SecondSignal second) : second_(second) {
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::jthread([this](const std::stop_token& over) { watch(over); });
}

StopSignals::~StopSignals() {
  thread_.request_stop();
  thread_.join();
  // A scheduler may send its signal once more while the process ends.
  if (has_stopped())
    for (const int signal : requests_of_schedulers())
      sigaddset(&before_, signal);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignals::on_stop(std::function<void()> stop, std::string notice) {
  const std::lock_guard lock(mutex_);
  stop_ = std::move(stop);
  notice_ = std::move(notice);
}

void StopSignals::stop_or_exit(int signal) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  const bool is_stopped = has_stopped();
  const bool is_again = !is_urgent(signal) || now - stopped_ < kTogether;
  if (is_stopped && (second_ == SecondSignal::ignored || is_again)) return;
  const bool is_first_urgent = is_stopped && !was_urgent_;
  if (!is_first_urgent && !stop_) std::_Exit(kInterruptedStatus);
  was_urgent_ = is_urgent(signal);
  stopped_ = now;
  say("\n{}\n", notice_.empty() ? kNotice : notice_);
  if (stop_) stop_();
  stop_ = nullptr;
}

void StopSignals::watch(const std::stop_token& over) {
  while (!over.stop_requested()) {
    const timespec period{.tv_sec = 0, .tv_nsec = 100'000'000};
    const int signal = sigtimedwait(&signals_, nullptr, &period);
    if (signal > 0) stop_or_exit(signal);
  }
}

}  // namespace sluice
