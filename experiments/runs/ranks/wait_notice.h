#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace sluice {

/// For its lifetime, says on stderr which ranks this process waits for: when
/// that has taken two seconds, and then every half minute.
class WaitNotice {
 public:
  using Say = std::function<std::string()>;

  /// A thread of its own calls `waiting` for "rank 1 waits for rank 0
  /// at ..."; what `at_once` returns, if it isn't empty, is said within a tenth
  /// of a second.
  WaitNotice(Say waiting, std::chrono::milliseconds patience,
             Say at_once = nullptr);
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

 private:
  void look(const std::stop_token& over);

  const Say waiting_;
  const std::chrono::milliseconds patience_;
  const Say at_once_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace sluice
