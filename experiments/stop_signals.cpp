#include "experiments/stop_signals.h"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

sigset_t stopping_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void watch(const std::stop_token& over, const std::function<void()>& stop) {
  const sigset_t set = stopping_signals();
  bool asked = false;
  while (!over.stop_requested()) {
    const timespec period{.tv_sec = 0, .tv_nsec = 100'000'000};
    if (sigtimedwait(&set, nullptr, &period) <= 0) continue;
    if (asked) std::_Exit(130);
    asked = true;
    fmt::print(stderr,
               "\nStopping at the next turn boundary, with a checkpoint. Once "
               "more: at once, without.\n");
    stop();
  }
}

}  // namespace

StopSignals::StopSignals(std::function<void()> stop) {
  const sigset_t set = stopping_signals();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  thread_ = std::jthread(watch, std::move(stop));
}

StopSignals::~StopSignals() {
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace sluice
