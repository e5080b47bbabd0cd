#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/data/data_set.h"
#include "experiments/data/sample_order.h"
#include "lib/source.h"

namespace sluice {

/// The batches of one split. Inputs are float32 [N, C, H, W], (x / 255 - mean)
/// / std per channel; labels are int64 [N]. Every batch has memory of its own,
/// which starts on a 64-byte boundary. Used by one thread at a time; any number
/// of sources may share a data set.
class SampleSource final : public Source {
 public:
  /// `samples` is a split of `data_set`; both must outlive the source.
  SampleSource(const DataSet& data_set, const Samples& samples,
               OrderOptions options);

  Batch batch(std::int64_t t) override;
  std::int64_t batches_per_epoch() const override {
    return order_.batches_per_epoch();
  }
  /// The indices of the samples of batch t.
  std::vector<std::int64_t> indices(std::int64_t t) { return order_.batch(t); }

 private:
  void read(std::int64_t index, float* input);

  const DataSet& data_set_;
  const Samples& samples_;
  SampleOrder order_;
  /// The normalised value of each byte, per channel.
  std::vector<std::array<float, 256>> values_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace sluice
