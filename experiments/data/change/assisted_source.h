#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/data/change/assisted_draws.h"
#include "lib/blocks/source.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The batches of a training split, of which an assistant skips samples in
/// lockstep. Batches are asked for one after the other. Batch t is a function
/// of (samples, options, losses of the batches up to t - lag turns): losses
/// that come earlier wait, and a batch whose losses have not come by then
/// teaches nothing. Used by one thread.
class AssistedSource final : public Source {
 public:
  /// lag: in turns, at least 1.
  AssistedSource(AssistedDraws draws, std::int64_t lag);

  /// The batch of turn t. A t other than the next one begins where the stream
  /// of all samples has it.
  Batch batch(std::int64_t t) override;
  std::int64_t batches_per_epoch() const override {
    return draws_.batches_per_epoch();
  }
  /// The figures are those of AssistedDraws::figures_of().
  std::vector<std::pair<std::string, double>> learn(
      std::int64_t t, const at::Tensor& losses) override;
  /// The assistant's tensors, named "assistant.*".
  NamedTensors state() const override;
  void restore(const NamedTensors& state, std::string_view source) override;

 private:
  /// A batch until the assistant has learned from it.
  struct OpenBatch {
    DrawnBatch drawn = {};
    at::Tensor losses = {};  ///< once they have come
  };

  void learn_until(std::int64_t last);

  AssistedDraws draws_;
  std::int64_t lag_;
  std::map<std::int64_t, OpenBatch> open_;  ///< by batch
};

}  // namespace sluice
