#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lib/base/config_node.h"

namespace sluice::report {

/// What a turn of a run does, as its config says: not measured.
struct TurnWork {
  /// Floating-point operations of the model's layers (forward, backward,
  /// replays), auxiliary heads, synthesizers and input models.
  double flops = 0;
  /// Those of them on the longest chain of actions that wait for each other,
  /// where each executor has a device of its own and messages take no time.
  double sequential_flops = 0;
  /// Bytes that cross boundaries in training: activations, labels and
  /// gradients, as the codecs send them.
  double bytes_sent = 0;
};

/// What a resolved config says of its runs.
struct ConfigFacts {
  /// Nothing where it can't be known beforehand, or the runs' data is not on
  /// this machine.
  std::optional<TurnWork> work = {};
  /// The shape of a sample; empty where that isn't known.
  std::vector<std::int64_t> sample = {};
};
using FactsOf = std::function<ConfigFacts(const ConfigNode&)>;

}  // namespace sluice::report
