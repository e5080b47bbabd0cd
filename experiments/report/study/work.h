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
  /// Operations on the longest chain of actions that wait for each other,
  /// where each executor has a device of its own and messages take no time.
  /// Nothing where that depends on a clock.
  std::optional<double> sequential_flops = {};
  /// Bytes that cross boundaries in training: activations, labels and
  /// gradients, as the codecs send them.
  double boundary_bytes = 0;
  /// Bytes that all replicas send each other in training, as their compressor
  /// sends them, in the first so many turns: an exchange need not belong to
  /// each of them. Empty: none.
  std::function<double(std::int64_t turns)> replica_bytes = {};
};

/// What a run does in so many turns; nothing where it isn't known.
using WorkInTurns = std::optional<double> (*)(const TurnWork& work,
                                              std::int64_t turns);
std::optional<double> flops_in(const TurnWork& work, std::int64_t turns);
std::optional<double> sequential_flops_in(const TurnWork& work,
                                          std::int64_t turns);
std::optional<double> bytes_sent_in(const TurnWork& work, std::int64_t turns);

/// Facts about a run that its resolved config states.
struct ConfigFacts {
  /// Work of a turn; nothing where it can't be known beforehand, or the runs'
  /// data is not on this machine.
  std::optional<TurnWork> work = {};
  /// The shape of a sample; empty where that isn't known.
  std::vector<std::int64_t> sample = {};
};
using FactsOf = std::function<ConfigFacts(const ConfigNode&)>;

}  // namespace sluice::report
