#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/replicas/group.h"
#include "lib/schedules/plan/replica_exchange.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The update whose gradients are exchanged.
struct ExchangedUpdate {
  std::int64_t number = 0;  ///< from 0, of the block
  double epoch = 0;         ///< of its turn, with a fraction
};

/// A replica's part in a compressed sum: the replicas of a block get the sum of
/// their gradients in fewer bytes than those have. What a replica left out of
/// an exchange it may keep for the next one, so one serves one stream of
/// gradients, those of a block's updates; used by one thread.
///
/// Gradients lie as the parameters do, in their order; undefined ones stay so,
/// and are the same ones for all replicas. Every replica gets the same bits.
/// Messages that no replica can have sent throw LinkError.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  /// Publishes; nothing of `gradients` may be written before the sum is there.
  virtual void start(const Tensors& gradients, const ExchangedUpdate& update,
                     Group& group) = 0;
  /// Second round of an exchange that has two: takes what all have published in
  /// the first, and publishes once more.
  virtual void finish_first(Group& group);
  virtual void start_second(Group& group);
  /// The sum, or what stands for it: it is divided by the number of replicas.
  virtual Tensors finish(Group& group) = 0;
  /// Tensors that go on over a checkpoint, by name, and are restored in place.
  virtual NamedTensors state() const { return {}; }
  /// What this replica has sent to the others until now.
  virtual std::int64_t sent_bytes() const = 0;
};

/// One of the replicas that an exchange or a policy is made for.
struct ReplicaSite {
  std::uint64_t seed = 1;  ///< of the run
  int member = 1;
  int members = 1;
  /// Whether what the replicas exchange is compressed.
  bool compresses = false;
  /// The block's replicas, where there are more than one; outlives what is
  /// made.
  Group* group = nullptr;
};

using TensorSizes = std::vector<std::int64_t>;

/// A compressor with its options.
struct CompressorKind {
  /// Maker of the exchange; empty: gradients are summed as they are.
  std::function<std::unique_ptr<GradientExchange>(
      const NamedTensors& parameters, const ReplicaSite& site)>
      make = nullptr;
  /// Bytes that stand for the gradients of such tensors in a round, as far as
  /// they can be known before: for plans and the virtual clock.
  std::function<double(const std::vector<TensorSizes>& sizes)> bytes = nullptr;
  ExchangeWay way = ExchangeWay::sum;
  int rounds = 1;
  /// Whether it keeps a momentum, which the optimizer then must not.
  bool keeps_momentum = false;
  /// Whether what it gives is a vote, without a magnitude.
  bool votes = false;
};

/// Reads the options of a compressor, beside its name.
using MakeCompressor = CompressorKind (*)(Fields& fields);
using CompressorRow = Row<MakeCompressor>;

/// "none" and the others. A new compressor is one source file and one row.
std::span<const CompressorRow> compressors();

}  // namespace sluice
