#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/hello.h"
#include "transport/io_thread.h"
#include "transport/transports.h"

namespace sluice {

/// A connected socket whose peer has said who it is.
struct Guest {
  Hello hello;
  Socket socket;
};

/// Makes connections on the I/O thread and reads their hellos, while one other
/// thread waits for those whom it expects. What it did not fetch is closed with
/// the meeting.
class Meeting {
 public:
  Meeting(IoThread& io, const Transport& transport);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Lets peers connect; each must say hello first. Returns the address.
  std::string listen(const std::string& folder, const std::string& name);
  /// Connects, says `mine` and reads the answer.
  void call(std::string address, Hello mine);
  /// The same on a socket that is connected already.
  void greet(Socket socket, Hello mine);

  /// Waits for the hello of `block` until `until`; meanwhile calls `check`
  /// (where it isn't empty) every 50 ms, which may throw to end the wait.
  /// Throws LinkError when time is up or a call failed.
  Guest wait_for(std::uint32_t block,
                 std::chrono::steady_clock::time_point until,
                 const std::function<void()>& check = nullptr);

 private:
  class Hall;
  IoThread& io_;
  const Transport transport_;
  const std::shared_ptr<Hall> hall_;
};

}  // namespace sluice
