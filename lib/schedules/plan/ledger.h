#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "lib/schedules/plan/action.h"

namespace sluice {

struct BlockPlan;

/// A thing done with a batch at a block that is still to be used there.
enum class Mark : std::uint8_t {
  in_flight,  ///< forwarded: waits for its backward (a batch, no message)
  summed,     ///< went backward: waits for the update of its window
  lesson,     ///< went backward: a synthesizer is still to learn from it
  predicted,  ///< an input model made its input, and is still to learn from it
  halved,     ///< its gradient went down: it waits for that of the weights
  published   ///< the replicas' exchange has begun there, and is to be settled
};

inline constexpr std::size_t kMarks = 6;

/// The one account of what a block has done, and so may do next. The block
/// itself, simulations and free-running choices go by it.
class Ledger {
 public:
  /// Sets the ledger as it is when the turns before `turn` are done, of a pipe
  /// that began with `first_batch`.
  void begin(const BlockPlan& plan, std::int64_t turn,
             std::int64_t first_batch);
  bool may(const Action& action) const;
  /// The thing that the action needs of its own block and lacks: "a forward of
  /// batch 3 before it"; empty: it may be done.
  std::string lacks(const Action& action) const;
  void did(const BlockPlan& plan, const Action& action);
  /// Sets a mark from a checkpoint of a block that ran free: begin() knows
  /// lockstep.
  void set(Mark mark, std::int64_t batch) { marked(mark).insert({batch, 0}); }

  /// Updates since the pipe began.
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }

  /// Batches that have the mark, the oldest first.
  const std::set<BatchRound>& with(Mark mark) const {
    return marked_[static_cast<std::size_t>(mark)];
  }

 private:
  std::set<BatchRound>& marked(Mark mark) {
    return marked_[static_cast<std::size_t>(mark)];
  }

  std::array<std::set<BatchRound>, kMarks> marked_;
  std::int64_t updates_ = 0;
};

}  // namespace sluice
