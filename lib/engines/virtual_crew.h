#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lib/engines/crew.h"
#include "lib/engines/fed_source.h"
#include "lib/engines/grant_book.h"
#include "lib/schedules/simulation/simulation.h"
#include "lib/workers/seat.h"

namespace sluice {

/// Index k-1.
using Seats = std::vector<std::shared_ptr<Seat>>;

/// Parts that the virtual engine works with.
struct VirtualParts {
  const Plans& plans;  ///< outlive the crew
  /// The seats' channels hold at least so many messages.
  const std::vector<Capacity>& capacities;
  Costs costs = {};
  std::int64_t threads = 1;  ///< intra-op, while wait() is called
  /// Sees every action with its times, when it was executed; may be empty.
  std::function<void(const TimedAction&)> watch = nullptr;
  /// The clock from which a continued run goes on.
  SavedClock saved = {};
  /// The source that is fed with the batches of the grants; nullptr: none come.
  std::shared_ptr<FedSource> fed = nullptr;
};

/// Crew whose seats all work in the thread that calls wait(), their actions in
/// the order of virtual time. Real numerics; with zero costs, the sequential
/// reference.
class VirtualCrew final : public Crew {
 public:
  VirtualCrew(Seats seats, VirtualParts parts, CrewEvents events);

  void give(const Grant& grant, std::span<const Batch> batches = {}) override;
  /// Throws what a seat throws as other engines do, as a UserError ("block 2:
  /// ..."), and UserError when the schedule waits for itself.
  void wait() override;
  CrewProgress progress() const override { return book_.progress(); }
  std::optional<NamedTensors> weights() const override;

  /// Time on the virtual clock.
  double seconds() const { return seconds_; }

 private:
  /// A block's place in its grants.
  struct Place {
    bool at_grant = false;
    bool waited = false;  ///< for a grant
    std::int64_t pipe = 0;
  };

  void begin(const Grant& first);
  bool refill();
  bool refill(int block);
  void take_up(int block, const Grant& grant);
  void execute(TimedAction timed);

  Seats seats_;
  const VirtualParts parts_;
  const CrewEvents events_;
  Simulation simulation_;
  GrantBook book_;
  std::vector<Place> places_;  // index k-1
  double seconds_ = 0;
};

}  // namespace sluice
