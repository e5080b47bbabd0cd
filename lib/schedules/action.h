#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// What a block does in one step.
enum class ActionKind : std::uint8_t {
  forward,     ///< F: forward a training batch, send it up
  backward,    ///< B: take the gradient of a batch, send the rest down
  update,      ///< U: optimizer step with the gradients of a batch
  evaluate,    ///< E: forward an evaluation batch
  learn,       ///< L: a synthesizer learns from a batch
  checkpoint,  ///< C: save the block; `batch` is the number of turns done
};

inline constexpr std::size_t kActionKinds = 6;

/// One step of one block, and the batch that it is for.
struct Action {
  ActionKind kind = ActionKind::forward;
  std::int64_t batch = 0;
  /// The block's turn: t of the turn that forwards batch t. A drain's turns
  /// count on.
  std::int64_t turn = 0;
  std::int64_t phase = 0;  ///< of the timetable: which plan it belongs to

  bool operator==(const Action&) const = default;
};

/// "F0", "B3", "U3", "E1", "C100".
std::string to_text(const Action& action);
/// The inverse for a line of actions between blanks; turns are not part of the
/// text and stay 0. Throws UserError naming the word that is no action.
std::vector<Action> actions_from_text(std::string_view line);

}  // namespace sluice
