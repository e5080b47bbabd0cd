#include "transport/links/alarm.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include <sys/timerfd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"

namespace sluice {

Alarm::Alarm() : timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
  if (!timer_) {
    throw UserError(
        "no timerfd could be made: {}; raise the limit of open files "
        "(ulimit -n)",
        errno_text());
  }
}

void Alarm::set(std::chrono::nanoseconds after) const {
  using std::chrono::seconds;
  // At least a nanosecond: no time at all would mean never.
  const auto time = std::max(after, std::chrono::nanoseconds(1));
  const auto whole = std::chrono::duration_cast<seconds>(time);
  const itimerspec when = {
      .it_interval = {},
      .it_value = {.tv_sec = whole.count(), .tv_nsec = (time - whole).count()}};
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void Alarm::wait() const {
  std::uint64_t times = 0;
  while (::read(timer_.get(), &times, sizeof times) < 0 && errno == EINTR) {
  }
}

}  // namespace sluice
