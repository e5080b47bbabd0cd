#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "experiments/runs/measuring/isolated_block.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/simulation/costs.h"

namespace sluice {

/// Times of a block's actions, one by one.
class Timings {
 public:
  void add(Op op, double seconds) { seconds_[op].push_back(seconds); }
  /// Heads and replays are part of a backward.
  BlockCosts medians() const;

 private:
  std::map<Op, std::vector<double>> seconds_;
};

/// A block and the action that it does next.
struct Performer {
  std::unique_ptr<IsolatedBlock> block = nullptr;
  std::deque<Action> actions = {};
};

struct ContendedTiming {
  std::size_t at_once = 2;   ///< blocks that act at the same time
  std::int64_t turns = 7;    ///< that each is measured for, at least
  std::int64_t threads = 1;  ///< intra-op, of each
};

/// Lets neighbours act at the same time, each in a thread of its own, `at_once`
/// after `at_once`, until each has done so many turns or has no more to do: a
/// quick one does more of them. Gives the medians of each. Throws what an
/// action throws.
std::vector<BlockCosts> act_contended(std::vector<Performer>& performers,
                                      const ContendedTiming& options);

}  // namespace sluice
