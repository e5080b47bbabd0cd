#pragma once

#include <cstdint>
#include <vector>

#include "lib/replicas/centre/centre_visit.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Rule of a block's centre for what its replicas bring, one after the other.
/// Used by one thread at a time.
class CentreRule {
 public:
  virtual ~CentreRule() = default;
  /// Training begins with these weights, which are of that clock, unless
  /// state() was restored.
  virtual void begin(const Tensors& weights, std::int64_t clock) = 0;
  /// Returns what the replica takes away, but for its place: tensors that
  /// are not written any more.
  virtual ServerAnswer serve(Push push);
  /// Merges, where replicas wait for others (Quorum): makes one step of what
  /// several bring, in the order of the replicas; then each takes its own by
  /// give().
  virtual void merge(std::vector<Push> pushes);
  virtual ServerAnswer give(int member);
  /// The replica is lost, and counts no more.
  virtual void lose(int member);
  /// A replica that was lost, or never there, begins with the weights of the
  /// centre, not with those that it had taken last. Returns them, which are not
  /// written any more, and the clock.
  virtual ServerAnswer take_back(int member) = 0;
  /// The weights that the centre has, new tensors.
  virtual Tensors consensus() const = 0;
  /// Tensors that go on over a checkpoint, and are restored in place.
  virtual NamedTensors state() const = 0;
};

}  // namespace sluice
