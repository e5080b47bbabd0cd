#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/replicas/compressor.h"
#include "lib/schedules/replicas.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// What a replica does with sums of weights. Every replica of a block has one;
/// given the same sums, all of them compute the same. Used by one thread.
class ReplicaPolicy {
 public:
  virtual ~ReplicaPolicy() = default;
  /// Training begins with these weights, unless state() was restored.
  virtual void begin(const Tensors& /*weights*/) {}
  /// The weights after an exchange, or of one before an update (old_weights)
  /// what is added to them after it. `mine` are the replica's own, `sum` that
  /// of all `members` replicas, in the order of the parameters. The result is
  /// new, or of `sum`. rate: the learning rate of the last update.
  virtual Tensors combine(const Tensors& mine, const Tensors& sum, int members,
                          double rate) = 0;
  /// What evaluations and checkpoints take for the model's weights; by default
  /// the mean of the replicas'.
  virtual Tensors consensus(const Tensors& sum, int members) const;
  /// Tensors that go on over a checkpoint, by name, and are restored in place.
  /// They differ between no two replicas.
  virtual NamedTensors state() const { return {}; }
};

/// How the replicas of a run work together.
struct ReplicaKind {
  ReplicaExchange exchange = {};
  /// The blocks exchange their weights at different updates.
  bool stagger = false;
  /// Evaluations and checkpoints take the mean of the replicas' BatchNorm
  /// statistics, not those of replica 1; training keeps each replica's own.
  bool mean_statistics = true;
  /// What the gradients that they exchange become on their way.
  CompressorKind compressor = {};
  /// Made for the parameters of a block; empty where gradients are exchanged.
  std::function<std::unique_ptr<ReplicaPolicy>(const NamedTensors& parameters)>
      make = nullptr;
};

/// Reads the options of a policy, beside its name.
using MakeReplicas = ReplicaKind (*)(Fields& fields);
using ReplicaPolicyRow = Row<MakeReplicas>;

/// All policies. A new one is one source file and one row.
std::span<const ReplicaPolicyRow> replica_policies();

}  // namespace sluice
