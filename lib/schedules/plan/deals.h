#pragma once

#include <cstdint>

namespace sluice {

/// Which replica has which batch.
enum class Dealing : std::uint8_t {
  shares,  ///< replica r of R has every R-th, whatever the others do
  arrival  ///< whoever asks first has the next: work follows speed
};

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
  /// Deals before any turn; turns before `since_turn` count as equally long.
  std::int64_t by(std::int64_t turn) const {
    return turn < since_turn ? since_deal * turn / since_turn : before(turn);
  }
  /// The first turn before which there were so many deals.
  std::int64_t turn_with(std::int64_t deals) const {
    if (deals < since_deal)
      return (deals * since_turn + since_deal - 1) / since_deal;
    return since_turn + (deals - since_deal + replicas - 1) / replicas;
  }
  /// The turn that comes after so many deals; what not all replicas would get
  /// is left out. Turns before `since_turn` count as equally long.
  std::int64_t turn_after(std::int64_t deals) const {
    if (deals < since_deal) return deals * since_turn / since_deal;
    return since_turn + (deals - since_deal) / replicas;
  }
  /// Turns of a run that has always had so many replicas by the time at which
  /// this one has done so many.
  double turns_by(std::int64_t turn) const {
    return static_cast<double>(by(turn)) / static_cast<double>(replicas);
  }

  bool operator==(const Deals&) const = default;
};

}  // namespace sluice
