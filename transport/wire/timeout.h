#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "lib/base/awake_clock.h"

namespace sluice {

/// Calls `expired` at a time, unless it goes first. It waits in steps: while
/// this process is suspended, no more than one of them passes. On the I/O
/// thread.
class Timeout {
 public:
  Timeout(const boost::asio::any_io_executor& executor,
          std::chrono::steady_clock::time_point time,
          std::function<void()> expired)
      : left_(time - Clock::now()),
        expired_(std::move(expired)),
        timer_(executor) {
    if (time != Clock::time_point::max()) step();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void step() {
    const auto step = std::min<Clock::duration>(left_, kAwakeLook);
    left_ -= step;
    timer_.expires_after(step);
    timer_.async_wait(
        [this, alive = std::weak_ptr<bool>(alive_)](const auto& error) {
          if (!error && alive.lock()) end_step();
        });
  }
  void end_step() {
    if (left_ > Clock::duration::zero()) return step();
    // expired() may destroy this object.
    const auto expired = std::move(expired_);
    expired();
  }

  Clock::duration left_;
  std::function<void()> expired_;
  // A wait that ended can't be cancelled any more; this is what it looks at.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  boost::asio::steady_timer timer_;
};

}  // namespace sluice
