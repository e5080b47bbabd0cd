#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/schedules/plan/op.h"

namespace sluice {

/// A visit of a batch: the batch, and the index of the visit, from 0; of an
/// exchange, the number of its kind. The ledger keeps what has been done by
/// both.
struct BatchRound {
  std::int64_t batch = 0;
  std::int64_t round = 0;

  // clang-tidy 14 takes the 0 that it is compared with for a pointer.
  auto operator<=>(const BatchRound&) const = default;  // NOLINT
};

/// "3" for round 0 of batch 3, "3.1" for round 1.
std::string to_text(const BatchRound& visit);

/// One step of one block, and the batch that it is for.
struct Action {
  Op op = Op::forward;
  std::int64_t batch = 0;
  /// The block's turn: t of the turn that forwards batch t. A drain's turns
  /// count on.
  std::int64_t turn = 0;
  std::int64_t phase = 0;  ///< of the timetable: which plan it belongs to
  /// In a forward that takes its input from a replay buffer: how many batches
  /// have been written into the buffer before. `batch` then counts the block's
  /// own. In a settle that the centre of the replicas serves: its place among
  /// all that this has served, from 1; in a pull that of the last one that it
  /// takes.
  std::int64_t arrived = 0;
  /// In a forward: the older batches whose activations were dropped when this
  /// one's was sent, because the block above was slow. In a pull: those that
  /// the replica leaves out, because its gradient came too late.
  std::vector<std::int64_t> dropped = {};
  /// Index of the visit, from 0, in methods that visit a batch several times.
  std::int64_t round = 0;
  ExchangeKind kind = ExchangeKind::none;  ///< of an exchange or a settle

  bool operator==(const Action&) const = default;
};

BatchRound batch_round(const Action& action);

/// "F0", "B3", "U3", "E1", "C100"; of round 1, "F5.1"; from a replay buffer
/// into which 7 batches have been written, "F5<7"; with batches 3 and 4
/// dropped, "F5-3-4". Served as the 17th by the replicas' centre, "S5<17";
/// dropped there, with batches 6 and 7 left out, "S5.5<19-6-7".
std::string to_text(const Action& action);
/// A line of them, a blank between; "P1" stands before the first action of
/// phase 1. What comes before any such word is of phase 0.
std::string to_text(const std::vector<Action>& actions);
/// The inverse of that line. Turns are not part of the text and stay 0; nor is
/// which kind of exchange a window has, so `of_window` says it. Throws
/// UserError naming the word that is no action.
std::vector<Action> actions_from_text(
    std::string_view line, ExchangeKind of_window = ExchangeKind::gradients);

}  // namespace sluice
