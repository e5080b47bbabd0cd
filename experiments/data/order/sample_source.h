#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "experiments/data/order/sample_order.h"
#include "experiments/data/samples/samples.h"
#include "lib/blocks/source.h"

namespace sluice {

/// The batches of one split, in the order that the options say. Every batch has
/// memory of its own, which starts on a 64-byte boundary. Used by one thread at
/// a time; any number of sources may share samples.
class SampleSource final : public Source {
 public:
  SampleSource(std::shared_ptr<const Samples> samples, OrderOptions options);

  Batch batch(std::int64_t t) override;
  std::int64_t batches_per_epoch() const override {
    return order_.batches_per_epoch();
  }
  /// Epoch of the samples of batch t.
  std::int64_t epoch(std::int64_t t) const { return order_.epoch(t); }
  /// What names the samples of batch t outside of Sluice (Samples::position).
  std::vector<std::int64_t> positions(std::int64_t t);

 private:
  EpochKey key(std::int64_t t) const {
    return {.seed = seed_, .epoch = order_.epoch(t), .augmented = augmented_};
  }

  std::shared_ptr<const Samples> samples_;
  std::uint64_t seed_;
  bool augmented_;
  bool raw_inputs_;
  bool sample_ids_;
  SampleOrder order_;
};

}  // namespace sluice
