#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace sluice::sweep {

/// Lines of a stream that come when they come. Whatever is behind the last line
/// break is a line too, when the stream ends.
class LineInput {
 public:
  explicit LineInput(int descriptor) : descriptor_(descriptor) {}

  /// Returns when something has come, or after that time.
  void wait(std::chrono::milliseconds most);
  /// The next whole line, without its end; nothing when it isn't there yet.
  std::optional<std::string> next();
  /// Whether nothing more will come, and next() has returned all.
  bool is_over() const { return has_ended_ && buffer_.empty(); }

 private:
  int descriptor_;
  std::string buffer_;
  bool has_ended_ = false;
};

}  // namespace sluice::sweep
