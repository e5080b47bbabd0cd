#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lib/blocks/block.h"
#include "lib/blocks/loss.h"
#include "lib/blocks/source.h"
#include "lib/boundaries/observer.h"
#include "lib/metrics/likeness.h"
#include "lib/metrics/sink.h"
#include "lib/tensors/precision.h"

namespace sluice {

/// Parts of a run that the probe needs.
struct ProbeParts {
  std::int64_t every = 1;  ///< turns
  bool layers = false;     ///< each layer by itself too
  std::uint64_t seed = 0;
  Masks masks = Masks::philox;
  int blocks = 1;
  int replicas = 1;
  Block model;  ///< all layers of the model, uncut
  std::shared_ptr<Source> training = nullptr;
  std::shared_ptr<Sink> sink = nullptr;
  Loss loss = {};
  Precision precision = Precision::fp32;
  MemoryFormat memory_format = MemoryFormat::contiguous;
};

/// Compares, every so many turns, the gradient that each block applies with the
/// true one: back-propagation of the batch that it applies through all blocks,
/// at the weights that they had before that turn, in training mode and with
/// that batch's masks. Writes a record of kind "probe" for each, and with
/// ProbeParts::layers one of kind "layer_probe" for each of their layers that
/// has parameters. Blocks that run free come to a turn when they forward its
/// batch: the model compared with is the one through which that batch went up,
/// though its blocks never had those weights at one time.
///
/// Each replica is compared by itself, with its own weights and batches. Where
/// replicas apply the mean of their gradients, a record of kind
/// "exchange_probe" says how true that is, to the mean of the true ones.
///
/// Safe to use from several threads.
class GradientProbe final : public Observer {
 public:
  explicit GradientProbe(ProbeParts parts);

  bool watches(std::int64_t turn) const override;
  void before_turn(int block, int replica, std::int64_t phase,
                   std::int64_t turn, NamedTensors weights) override;
  void applied(Application application) override;

 private:
  struct Key {
    int replica = 1;
    std::int64_t phase = 0;
    std::int64_t turn = 0;
    auto operator<=>(const Key&) const = default;  // NOLINT, as of BatchRound
  };
  struct Turn {
    std::map<int, NamedTensors> weights;          // by block
    std::vector<Application> applications;        // not compared yet
    std::map<std::int64_t, NamedTensors> truths;  // by batch of the source
  };

  void compare(Turn& turn);
  void tell(const Application& application, Turn& turn);
  void tell_exchanged(const Application& application, Turn& turn);
  const NamedTensors& truth_of(std::int64_t batch, Turn& turn);
  NamedTensors mean_truth(std::int64_t first_batch, Turn& turn);
  NamedTensors back_propagate(std::int64_t batch, const Turn& turn);
  void forget_before(const Key& key);

  ProbeParts parts_;
  std::mutex mutex_;  // guards all
  std::map<Key, Turn> turns_;
};

}  // namespace sluice
