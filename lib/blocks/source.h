#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

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
};

/// Yields batch t: a pure function of (data set, seed, t), so every worker can
/// open its own. The last batch of an epoch keeps its real size.
class Source {
 public:
  virtual ~Source() = default;
  /// t >= 0, past the first epoch too. Throws UserError when a file fails.
  virtual Batch batch(std::int64_t t) = 0;
  virtual std::int64_t batches_per_epoch() const = 0;
};

}  // namespace sluice
