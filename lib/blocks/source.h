#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace sluice {

struct Batch {
  std::int64_t index = 0;
  at::Tensor inputs;  ///< [N, ...] on the CPU, contiguous, 64-byte aligned
  /// [N] int64, of texts [N, T]; shares or numbers, float32 [N, C] (Targets of
  /// lib/tensors/tensors.h).
  at::Tensor labels;
  /// The inputs as they were before normalisation, in 0..1, for policies that
  /// need them; undefined where no block asked.
  at::Tensor raw_inputs = {};
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
