#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "experiments/data/samples/input_store.h"
#include "lib/blocks/source.h"

namespace sluice {

/// What the look of a sample may depend on beside its index.
struct EpochKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  /// Whether samples have the random changes that a training split makes.
  bool augmented = true;
};

/// The samples of one split, in memory. Any number of threads may use them. An
/// index is in [0, size()).
class Samples {
 public:
  virtual ~Samples() = default;
  virtual std::int64_t size() const = 0;
  /// The samples `indices` in that order, as they are in that epoch, in memory
  /// of their own: a pure function. The batch's own index is the caller's to
  /// set.
  virtual Batch batch(std::span<const std::int64_t> indices,
                      EpochKey key) const = 0;
  /// What the inputs of a batch were before normalisation, in 0..1. Throws
  /// UserError where there is no such thing.
  virtual at::Tensor raw(const at::Tensor& inputs) const;
  /// The inputs of all samples, where those of a batch, augmented or not, are
  /// some of them as they are; nullptr: batch() makes them. Lives as long as
  /// the samples.
  virtual std::shared_ptr<const InputStore> input_store(
      bool /*augmented*/) const {
    return nullptr;
  }
  /// As batch(), with places in input_store() for inputs: int64 [N]. To be
  /// called where there is a store.
  virtual Batch places(std::span<const std::int64_t> indices,
                       EpochKey key) const;
  /// What names the sample outside of Sluice: its index, or of a text the first
  /// byte or token of its window.
  virtual std::int64_t position(std::int64_t index, EpochKey key) const = 0;
};

}  // namespace sluice
