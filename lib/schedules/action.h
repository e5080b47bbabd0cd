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
  learn_input  ///< I: an input model learns from a batch
};

inline constexpr std::size_t kActionKinds = 7;

/// For people: "learn input".
std::string_view name_of(ActionKind kind);

/// One step of one block, and the batch that it is for.
struct Action {
  ActionKind kind = ActionKind::forward;
  std::int64_t batch = 0;
  /// The block's turn: t of the turn that forwards batch t. A drain's turns
  /// count on.
  std::int64_t turn = 0;
  std::int64_t phase = 0;  ///< of the timetable: which plan it belongs to
  /// Of a forward that takes its input from a replay buffer: how many batches
  /// have been written into it before. `batch` counts the block's own.
  std::int64_t arrived = 0;
  /// Of a forward: the batches whose activations were dropped for it, because
  /// the block above was slow.
  std::vector<std::int64_t> dropped = {};

  bool operator==(const Action&) const = default;
};

/// "F0", "B3", "U3", "E1", "C100"; from a replay buffer into which 7 batches
/// have been written, "F5<7"; with batches 3 and 4 dropped, "F5-3-4".
std::string to_text(const Action& action);
/// The inverse for a line of actions between blanks; turns are not part of the
/// text and stay 0. Throws UserError naming the word that is no action.
std::vector<Action> actions_from_text(std::string_view line);

}  // namespace sluice
