#pragma once

#include <cstdint>

namespace sluice {

/// How many batches the source deals out in a turn: one for each replica. A run
/// that was continued with another number of replicas has that number since
/// some turn: then the turns of all take up where the deals of those before
/// ended.
struct Deals {
  std::int64_t replicas = 1;
  std::int64_t since_turn = 0;
  std::int64_t since_deal = 0;  ///< deals before that turn

  /// Deals before the turn, which isn't before `since_turn`.
  std::int64_t before(std::int64_t turn) const {
    return since_deal + (turn - since_turn) * replicas;
  }
  /// The turn that comes after so many deals; what not all replicas would get
  /// is left out. Turns before `since_turn` count as equally long.
  std::int64_t turn_after(std::int64_t deals) const {
    if (deals < since_deal) return deals * since_turn / since_deal;
    return since_turn + (deals - since_deal) / replicas;
  }
  /// By how much a turn's number would be higher in a run that had always had
  /// so many replicas: what schedules of the learning rate go by.
  std::int64_t turns_ahead() const {
    return since_deal / replicas - since_turn;
  }

  bool operator==(const Deals&) const = default;
};

}  // namespace sluice
