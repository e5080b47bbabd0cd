#include "experiments/runs/ranks/wait_notice.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "lib/base/files/user_text.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPeriod(100);
constexpr std::chrono::seconds kFirst(2);
constexpr std::chrono::seconds kAgain(30);

}  // namespace

WaitNotice::WaitNotice(Say waiting, std::chrono::milliseconds patience,
                       Say at_once)
    : waiting_(std::move(waiting)),
      patience_(patience),
      at_once_(std::move(at_once)),
      thread_([this](const std::stop_token& over) { look(over); }) {}

WaitNotice::~WaitNotice() {
  thread_.request_stop();
}

void WaitNotice::look(const std::stop_token& over) {
  const auto begin = Clock::now();
  auto next = begin + kFirst;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any ended;
  while (!over.stop_requested()) {
    ended.wait_for(lock, over, kPeriod, [] { return false; });
    // Called once more at the end, since the last lines should be printed too.
    if (const std::string text = at_once_ ? at_once_() : ""; !text.empty())
      say("sluice: {}\n", text);
    const auto now = Clock::now();
    if (over.stop_requested() || now < next) continue;
    next = now + kAgain;
    say("sluice: {} ({:.0f} s so far, {:.0f} s at most)\n", waiting_(),
        std::chrono::duration<double>(now - begin).count(),
        std::chrono::duration<double>(patience_).count());
  }
}

}  // namespace sluice
