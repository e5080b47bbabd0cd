#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/blocks/block.h"
#include "lib/replicas/centre/centre_ways.h"
#include "lib/replicas/compressor.h"
#include "lib/replicas/group.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/transform.h"
#include "lib/workers/trained/trained_tensors.h"

namespace sluice {

/// What a seat tells an exchange that it publishes or settles.
struct ExchangeContext {
  const BlockPlan& plan;
  const Action& action;
  /// Sum of a window's gradients, in the order of the parameters; of a lesson
  /// those of its learners.
  const Tensors& gradients;
  const Learners* learners = nullptr;  ///< of a lesson
  UpdateInfo info = {};                ///< of the window
  double epoch = 0;                    ///< of its turn, with a fraction
  std::int64_t version = 0;            ///< of the weights
  double last_rate = 0;                ///< learning rate of the last update
};

/// What came of a push, or of a pull.
struct CentreVisit {
  std::int64_t place = 0;   ///< among all that the centre has served, from 1
  std::int64_t missed = 0;  ///< updates of others since the last pull
  bool is_over = true;      ///< not of a push that is pulled later
  /// What was merged, without its tensors; only of a pull.
  std::optional<MergeResult> merged = {};
};

/// Weights and statistics that evaluations and checkpoints take.
struct AgreedWeights {
  Tensors weights = {};
  Tensors buffers = {};                 ///< of the block, in their order
  std::vector<CentreLoss> losses = {};  ///< since they agreed last
};

/// What a seat begins with that joins a run.
struct SeatEntry {
  Tensors weights = {};
  std::optional<Tensors> buffers = {};  ///< of the block, in their order
  std::int64_t clock = 0;  ///< of the centre, where that makes the updates
};

/// What a seat has after an exchange is settled: what is there, it takes.
struct ExchangeResult {
  std::optional<Tensors> gradients = {};  ///< in the place of the window's
  std::vector<Tensors> of_each = {};      ///< a step of the update each
  std::optional<Tensors> weights = {};    ///< that replicas have combined
  Tensors pulls = {};                     ///< to add to those of the update
  /// The update that a centre has made of gradients.
  std::optional<ServerAnswer> update = {};
  std::optional<Tensors> lesson = {};  ///< gradients of its learners
  std::optional<AgreedWeights> agreed = {};
  std::optional<CentreVisit> visit = {};
  std::optional<SeatEntry> entry = {};
  bool gathered = false;  ///< the weights are there, updated by all replicas
};

/// Weights that replicas have combined; before an update (old_weights) what is
/// added to those after it.
ExchangeResult combined(const ReplicaExchange& exchange, Tensors weights);

/// One kind of exchange of a block's replicas, as one of them takes part in it.
/// A new one is a source here, its row in exchanges.cpp, and the row of its
/// kind (lib/schedules/plan/exchange_table.h). Used by the seat's thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Publishes what the others shall have. Doesn't wait.
  virtual void publish(const ExchangeContext& context) = 0;
  /// Waits for what the others have published. Throws LinkError when one that
  /// it waits for is gone.
  virtual ExchangeResult settle(const ExchangeContext& context) = 0;
};

/// What the exchanges of a replica are made from, and share; all of it outlives
/// them.
struct ExchangeSite {
  const Block& block;
  TrainedTensors& trained;
  const ReplicaKind& kind;
  const ReplicaRules& rules;
  Group* group = nullptr;  ///< or centres
  CentreWays* centres = nullptr;
  GradientExchange* compressed = nullptr;  ///< nullptr: nothing is
};

/// The exchange of that kind; nullptr where the replica has none of it.
std::unique_ptr<Exchange> make_exchange(ExchangeKind kind,
                                        const ExchangeSite& site);

}  // namespace sluice
