#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

namespace sluice {

/// Calls `expired` at a time, unless it goes first. On the I/O thread.
class Timeout {
 public:
  Timeout(const boost::asio::any_io_executor& executor,
          std::chrono::steady_clock::time_point time,
          std::function<void()> expired)
      : timer_(executor, time) {
    timer_.async_wait([alive = std::weak_ptr<bool>(alive_),
                       expired = std::move(expired)](const auto& error) {
      if (!error && alive.lock()) expired();
    });
  }

 private:
  // A wait that ended can't be cancelled any more; this is what it looks at.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  boost::asio::steady_timer timer_;
};

}  // namespace sluice
