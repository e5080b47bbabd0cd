#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A fault that a user asks for, to see what a run makes of it.
struct Injection {
  enum class Kind : std::uint8_t {
    kill,
    stop,
    hang,
    delay,
    slow,
    corrupt,
    fail_checkpoint
  };
  enum class Moment : std::uint8_t { turn, start, evaluation, checkpoint };

  Kind what = Kind::kill;
  int block = 0;  ///< whose; of a delay or corruption the sender's
  int to = 0;     ///< of a delay or corruption: who receives
  Moment when = Moment::turn;
  std::int64_t turn = 0;
  double factor = 1;
  std::chrono::microseconds delay{0};
  std::string text = {};  ///< as it was written

  bool operator==(const Injection&) const = default;

  /// Whether the fault happens once in a run, restarts included.
  bool is_once() const { return what != Kind::delay && what != Kind::slow; }
};

/// Reads "kill block 2 @ turn 50; delay 1->2 20ms" for a run of so many blocks.
/// Throws UserError naming the part that isn't understood and what is.
std::vector<Injection> parse_injections(std::string_view text, int blocks);

/// Faults as text, the inverse of reading them.
std::string to_text(const std::vector<Injection>& injections);

/// Text of `sluice help inject`.
std::string injections_manual();

}  // namespace sluice
