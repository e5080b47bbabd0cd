#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/schedules/replicas/dealer.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/transform.h"

namespace sluice {

/// What a replica brings to the centre of its block.
struct Push {
  int member = 1;  ///< the replica, from 1
  /// Gradients or weights, in the order of the parameters; not to be written.
  Tensors tensors = {};
  /// Update that the gradients are for, where these are pushed. Its staleness
  /// in updates is in those of the centre, as far as the replica knows: until
  /// its last pull.
  UpdateInfo info = {};
  /// The centre's clock (ServerAnswer::clock) at that pull.
  std::int64_t clock = 0;
  /// The last batch that the push is of.
  std::int64_t batch = 0;
  /// Updates between two pushes of the replica (ReplicaExchange::every).
  std::int64_t updates = 1;
  /// Sum of the losses of its batches, where the rule goes by them
  /// (ReplicaKind::adopt_every).
  double loss = 0;
};

/// What a replica takes away from the centre.
struct ServerAnswer {
  Tensors tensors = {};
  std::int64_t place = 0;  ///< of its push among all that were served, from 1
  // Where these are gradients:
  double rate = 0;          ///< with which the centre steps by them
  std::int64_t clock = 0;   ///< updates that the centre has made
  std::int64_t missed = 0;  ///< of these, between the last pull and this push
};

/// What a replica takes that has waited for others.
struct MergeResult {
  ServerAnswer served = {};  ///< its place: of the last push that was merged
  bool is_late = false;      ///< what the replica brought was dropped
  /// How often others were merged without it since it took something last.
  std::int64_t absent = 0;
  std::int64_t turn = -1;  ///< the latest that has been merged
};

/// What a replica begins with that joins a run.
struct CentreEntry {
  ServerAnswer served = {};  ///< its place: among the pushes
  /// Means that the replicas brought to the last rest; empty: there was none.
  Tensors statistics = {};
};

/// What a centre begins with.
struct CentreOpening {
  /// Parameters of the block, on the CPU, with the values that training begins
  /// with.
  NamedTensors parameters = {};
  std::int64_t clock = 0;  ///< updates that had led to these
  /// CentreAtRest::state of a checkpoint, which it goes on with; empty: none.
  NamedTensors state = {};
  DealtBatches batches = {};  ///< as that
  /// Replicas that were lost, which begin with the weights of the centre, not
  /// with those that they had taken last.
  std::vector<int> returning = {};
};

/// What a centre says of a replica that it has lost: all that one who has the
/// actions of that replica must know beside them to do the same again.
struct CentreLoss {
  int member = 1;
  /// The place of what was served last, or of the loss itself where that has
  /// one (CentreSetup::counts_losses).
  std::int64_t place = 0;
  /// The place of what it brought last since it began; 0: nothing was served.
  std::int64_t served = 0;
  /// With a quorum: the place of what was served last when what this one had
  /// brought was merged, or found to be late; 0: it still waited.
  std::int64_t merged = 0;
  bool rests = false;  ///< it had come to the next rest
};

/// The centre of a block's replicas when all have come to it and none has gone
/// on.
struct CentreAtRest {
  Tensors weights = {};
  Tensors statistics = {};  ///< means of what all have brought
  /// Where the block has several centres (CentreSetup::is_of_several): means of
  /// what visitors have brought; the statistics are those of the host.
  Tensors visitors = {};
  NamedTensors state = {};
  DealtBatches batches = {};
  /// Bytes of all that the centre keeps: weights, the optimizer's state, what
  /// replicas have taken.
  std::int64_t kept_bytes = 0;
  /// Gathering::awaited(), where that follows the arrivals.
  std::optional<double> awaited = {};
  std::vector<CentreLoss> losses = {};  ///< since the rest before, in order
};

}  // namespace sluice
