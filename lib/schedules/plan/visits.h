#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/schedules/plan/gradient_part.h"

namespace sluice {

struct RunPlan;

/// A part of the gradient at h_k that block k+1 sends in a message of its own.
struct Arrival {
  std::size_t way = 0;     ///< GradientFlow::leaving's, of block k+1
  std::int64_t round = 0;  ///< of that message

  bool operator==(const Arrival&) const = default;
};

/// One of a backward's visits of a batch, if it is made of several. Of those
/// that visit_by_parts() makes, it takes
/// back the parts that leave one way, as soon as they have arrived, and sends
/// one message down. Parts that stay are in one visit. Local losses
/// with a reach need that: what a block's own head sends down waits for no
/// block above (Laskin et al. 2020, arXiv:2012.03837; Gomez et al. 2022,
/// arXiv:2010.04116). Those of add_sweeps() (sweeps.h) go on with the
/// batch where its auxiliary variables have moved to.
struct BackwardVisit {
  bool own = false;  ///< whether the block's own part is among them
  std::vector<Arrival> arrivals = {};
  /// In add_sweeps(): whether it moves the block's weights. In visit_by_parts()
  /// each part says so itself (GradientFlow::arriving()).
  bool applied = true;
  int leaving = GradientPart::kStays;
  /// Batches of the turn whose first visits come before it, so that what it
  /// waits for has had their time to arrive.
  std::int64_t lag = 0;
  /// Whether the input comes from below once more, and is forwarded again.
  bool takes_input = false;
  /// Whether the block's output goes up, as its lower end has changed it: the
  /// input of the next visit above.
  bool publishes = false;
  /// Whether the visit goes back through the block; false: only the lower end
  /// gives a signal.
  bool goes_back = true;

  bool operator==(const BackwardVisit&) const = default;
};

/// Makes the backwards of all blocks out of visits, where any has several and
/// none has a delay or learns from what comes from above; else leaves the plan
/// as it is.
void visit_by_parts(RunPlan& plan);

}  // namespace sluice
