#pragma once

#include "lib/tensors/tensors.h"

namespace sluice {

/// A block's replicas, as one of them sees them: what they sum together. All
/// begin the same sums in the same order. Used by one thread.
class Group {
 public:
  virtual ~Group() = default;
  /// Number of replicas, and which one this is, from 1.
  virtual int members() const = 0;
  virtual int member() const = 0;
  /// Publishes this replica's part of the next sum. All give tensors of the
  /// same sizes and strides, undefined ones at the same places. They must not
  /// be written any more: others may still read them after finish_sum().
  virtual void start_sum(Tensors mine) = 0;
  /// Waits until all have published theirs, and returns the sums, new tensors,
  /// added in the order of the replicas. Throws LinkError when a replica is
  /// gone.
  virtual Tensors finish_sum() = 0;
  /// For a caller that can't wait: whether finish_sum() would not.
  virtual bool is_ready() const = 0;
};

}  // namespace sluice
