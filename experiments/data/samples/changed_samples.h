#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "experiments/data/samples/samples.h"

namespace sluice {

/// Samples whose batches are those of others, changed.
class ChangedSamples : public Samples {
 public:
  explicit ChangedSamples(std::shared_ptr<const Samples> of)
      : of_(std::move(of)) {}

  std::int64_t size() const override { return of_->size(); }
  at::Tensor raw(const at::Tensor& inputs) const override {
    return of_->raw(inputs);
  }
  std::int64_t position(std::int64_t index, EpochKey key) const override {
    return of_->position(index, key);
  }
  Batch batch(std::span<const std::int64_t> indices,
              EpochKey key) const override {
    return changed(of_->batch(indices, key), indices, key);
  }

 protected:
  /// The batch of the others, in memory of its own, with the change.
  virtual Batch changed(Batch batch, std::span<const std::int64_t> indices,
                        EpochKey key) const = 0;

  const std::shared_ptr<const Samples> of_;
};

/// As above; the change is of labels alone, so that inputs may lie in a store.
class RelabelledSamples : public ChangedSamples {
 public:
  using ChangedSamples::ChangedSamples;

  std::shared_ptr<const InputStore> input_store(bool augmented) const override {
    return of_->input_store(augmented);
  }
  Batch places(std::span<const std::int64_t> indices,
               EpochKey key) const override {
    return changed(of_->places(indices, key), indices, key);
  }
};

}  // namespace sluice
