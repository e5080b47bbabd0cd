#pragma once

#include <memory>
#include <vector>

#include "lib/schedules/plan/peers.h"
#include "lib/tensors/parts.h"
#include "lib/tensors/tensors.h"

namespace sluice {

class SharedWeights;

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
  /// As above, but returns means: of tensors that are equal in all replicas
  /// they are these, bit by bit (mean_in_order()). By default, for groups that
  /// only sum, sums over their number, equal to these within rounding.
  virtual Tensors finish_mean();
  /// For a caller that can't wait: whether finish_sum() would not, nor any
  /// other finish_.
  virtual bool is_ready() const = 0;

  // Sums of which each replica keeps a part, and what it makes of its part. By
  // default from sums of whole tensors; a group that can send less does.

  /// As start_sum() and finish_sum(), but gives the member's parts of the sums
  /// (parts_of()).
  virtual void start_parts(Tensors mine);
  virtual Tensors finish_parts();
  /// Publishes this replica's parts of tensors that all have alike, and writes
  /// those of the others into them. They are dense, and must not be written
  /// from the start on until the next sum is over.
  virtual void start_gather(const Tensors& whole);
  virtual void finish_gather(const Tensors& whole);

  // An exchange between some of the replicas, at the same place among the sums
  // of all of them. By default from a sum that has a place for each member; a
  // group that can send less does.

  /// Like start_sum(), with the members that have this one in their
  /// Peers::from.
  virtual void start_share(Tensors mine, const Peers& peers);
  /// Waits until those have published theirs from which this member takes, and
  /// returns what they gave, in the order of Peers::from. It must not be
  /// written. Throws LinkError when one of them is gone.
  virtual std::vector<Tensors> finish_share();

  // All-to-all of byte strings, without reduction.

  /// Publishes what each replica shall be given, index r-1: bytes in a line, on
  /// the CPU, which are not written any more. May be one tensor for all.
  virtual void start_swap(Tensors to_each);
  /// Tensors that each member has given this one, index r-1; as sent, so to be
  /// checked. Throws as finish_sum(). By default, for groups that only sum,
  /// both throw InternalError.
  virtual Tensors finish_swap();

  /// What all members have in common. By default, for groups that have no
  /// memory in common, throws InternalError.
  virtual std::shared_ptr<SharedWeights> shared_weights();

 protected:
  Share share() const { return {member(), members()}; }
  /// Writes what another member has published: its parts.
  void take_parts(const Tensors& whole, int other, const Tensors& parts) const;

 private:
  Tensors shared_;         // by start_share()
  std::vector<int> from_;  // whom finish_share() takes from
};

}  // namespace sluice
