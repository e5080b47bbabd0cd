#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "lib/tensors/tensors.h"

namespace sluice {

/// The weights of a block that its replicas have in common: one copy in memory,
/// which all of them read and add to whenever they like (Niu et al. 2011,
/// arXiv:1106.5730, algorithm 1). Elements are read and written by relaxed
/// atomic operations, one by one: nothing that is added is lost, and a reader
/// may see a part of what another replica adds. Any thread may call anything.
/// Tensors are on the CPU, of float32 or float64, dense, and all lists have the
/// same sizes and strides.
class SharedWeights {
 public:
  /// The weights that all begin with, by the first who comes: the others find
  /// them there. To be called before all else, by each thread. Throws UserError
  /// where they are of another type.
  void fill(const NamedTensors& first);
  /// Copies the shared weights.
  void load(const Tensors& into) const;
  /// Adds how far each element has come from `before` to `after`. An element
  /// that has not moved is left alone; one that no other replica has changed
  /// since `before` becomes the bits of `after`.
  void add(const Tensors& before, const Tensors& after);
  /// Number of calls of add().
  std::int64_t updates() const {
    return updates_.load(std::memory_order_relaxed);
  }

  /// A replica has added all that it will before all of them have come here;
  /// the last one notes the weights. Call it in the same order everywhere, and
  /// go on when all have come.
  void arrive(int members);
  /// Weights that the last arrival noted. They stay until the next one notes
  /// some, which waits for the caller.
  const Tensors& settled() const { return settled_; }

 private:
  std::once_flag filled_;
  Tensors weights_;
  std::atomic<std::int64_t> updates_ = 0;
  std::atomic<std::int64_t> arrived_ = 0;
  Tensors settled_;
};

}  // namespace sluice
