#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include "lib/tensors/tensors.h"

namespace sluice {

struct Batch {
  std::int64_t index = 0;
  /// [N, ...] on the CPU, contiguous, 64-byte aligned; or on a GPU, laid out
  /// for the block that wants them.
  at::Tensor inputs;
  /// [N] int64, of texts [N, T]; shares or numbers, float32 [N, C] (Targets of
  /// lib/tensors/tensors.h).
  at::Tensor labels;
  /// The inputs as they were before normalisation, in 0..1, for policies that
  /// need them; undefined where no block asked.
  at::Tensor raw_inputs = {};
  /// Recorded behind the copy of the inputs to their GPU, which may be under
  /// way; nullptr: they are there.
  std::shared_ptr<c10::Event> copied = nullptr;
  /// [N] int64: the index of each sample in its split, for policies that keep
  /// something of every sample; undefined where no block asked.
  at::Tensor ids = {};
  /// Batches from whose losses the source learned since the batch before, where
  /// a clock decided that: with these, and this order, it yields the batch
  /// again.
  std::vector<std::int64_t> learned = {};
};

/// Yields batch t: a pure function of (data set, seed, t), so every worker can
/// open its own; of one that learns, a function of the losses too that it was
/// told before (and of when, where Batch::learned is set), and one worker has
/// it. The last batch of an epoch keeps its real size.
class Source {
 public:
  virtual ~Source() = default;
  /// t >= 0, past the first epoch too. Throws UserError when a file fails.
  virtual Batch batch(std::int64_t t) = 0;
  virtual std::int64_t batches_per_epoch() const = 0;
  /// Tells what became of batch t: float64 [N], the loss of each of its
  /// samples. Returns named figures about the batch, for the metrics.
  virtual std::vector<std::pair<std::string, double>> learn(
      std::int64_t /*t*/, const at::Tensor& /*losses*/) {
    return {};
  }
  /// State that the source has learned, for a checkpoint, under names of its
  /// own.
  virtual NamedTensors state() const { return {}; }
  /// Goes on from what state() returned; further tensors are ignored, and where
  /// it finds nothing of its own it begins anew. `source` is named in errors.
  virtual void restore(const NamedTensors& /*state*/,
                       std::string_view /*source*/) {}
};

}  // namespace sluice
