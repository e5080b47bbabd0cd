#pragma once

#include <functional>
#include <optional>

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

/// From a resolved config; nothing where it can't be known beforehand, or the
/// run's data is not on this machine.
using WorkOf = std::function<std::optional<TurnWork>(const ConfigNode&)>;

}  // namespace sluice::report
