#include "experiments/sweep/line_input.h"

#include <array>
#include <cerrno>
#include <thread>

#include <poll.h>
#include <unistd.h>

namespace sluice::sweep {

void LineInput::wait(std::chrono::milliseconds most) {
  if (has_ended_) return std::this_thread::sleep_for(most);
  pollfd input{.fd = descriptor_, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, static_cast<int>(most.count())) <= 0) return;
  std::array<char, 4096> bytes{};
  const ssize_t n = ::read(descriptor_, bytes.data(), bytes.size());
  if (n > 0)
    buffer_.append(bytes.data(), static_cast<std::size_t>(n));
  else if (n == 0 || (errno != EINTR && errno != EAGAIN))
    has_ended_ = true;
}

std::optional<std::string> LineInput::next() {
  std::size_t end = buffer_.find('\n');
  if (end == std::string::npos) {
    if (!has_ended_ || buffer_.empty()) return std::nullopt;
    end = buffer_.size();
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

}  // namespace sluice::sweep
