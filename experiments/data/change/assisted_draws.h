#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "experiments/data/change/assistant.h"
#include "experiments/data/order/sample_order.h"
#include "experiments/data/samples/samples.h"
#include "lib/blocks/source.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The samples of a batch that an assistant has drawn.
struct DrawnBatch {
  std::vector<std::int64_t> indices = {};
  std::int64_t pass = 0;     ///< in which the first of them came up
  std::int64_t skipped = 0;  ///< samples
  std::int64_t end = 0;      ///< place in the stream behind it

  /// Adds what restored() reads. losses: of its samples, or undefined.
  void save(const std::string& name, const at::Tensor& losses,
            NamedTensors& all) const;
  static std::pair<DrawnBatch, at::Tensor> restored(const std::string& name,
                                                    const SavedState& saved);
};

/// An assistant, and the draws by which it skips samples of a training split.
/// The samples come up in the order of SampleOrder, pass after pass; each is
/// taken or skipped by a draw that is keyed by (seed, place in that stream),
/// against AssistOptions::acceptance and the assistant's vote on the sample
/// without random changes; batch t has as many of those taken as it has without
/// an assistant. An epoch is a number of batches, as ever: as many samples
/// trained on as the split has, in which the stream makes one pass or more.
/// With a stride R the samples that come up are those of every R-th batch, from
/// the first that is asked for on: the share of one of R replicas.
///
/// A batch is a function of the place at which the last one ended and of what
/// the assistant has learned. With acceptance = 1, or an assistant that is
/// dead, samples are taken without being looked at. Used by one thread at a
/// time. What throws changes nothing.
class AssistedDraws {
 public:
  /// `of` what the samples are.
  AssistedDraws(std::shared_ptr<const Samples> samples, const SampleSpec& of,
                OrderOptions order, const AssistOptions& options,
                std::int64_t stride = 1);

  std::int64_t batches_per_epoch() const { return order_.batches_per_epoch(); }
  std::int64_t stride() const { return stride_; }
  /// The batch that goes on where the last one ended; -1: none was drawn.
  std::int64_t next() const { return next_; }
  /// Any other than next() begins where the stream of all samples has it.
  DrawnBatch draw(std::int64_t t);
  Batch make(std::int64_t t, const DrawnBatch& drawn) const;
  /// Has the assistant learn from the losses, float64 [N], of a batch.
  void learn(const DrawnBatch& drawn, const at::Tensor& losses);
  /// "skipped", the share of the samples that came up for the batch, and
  /// "passes" of the stream when it was full.
  std::vector<std::pair<std::string, double>> figures_of(
      const DrawnBatch& drawn) const;
  /// Adds the assistant, and its place, as "<name>.*".
  void save(const std::string& name, NamedTensors& all) const;
  void restore(const std::string& name, const SavedState& saved);

 private:
  std::vector<std::int64_t> candidates(std::int64_t count, std::int64_t& place,
                                       std::vector<std::int64_t>& places);
  std::vector<bool> accepted(const std::vector<std::int64_t>& indices,
                             const std::vector<std::int64_t>& places) const;
  Batch plain(const std::vector<std::int64_t>& indices,
              std::int64_t pass) const;
  std::int64_t place_of(std::int64_t t) const;
  std::int64_t size_of(std::int64_t t) const;

  std::shared_ptr<const Samples> samples_;
  OrderOptions options_;
  AssistOptions assist_;
  std::int64_t stride_;
  SampleOrder order_;
  std::int64_t per_pass_;  ///< samples
  Assistant assistant_;
  std::int64_t next_ = -1;
  std::int64_t place_ = 0;  ///< in the stream
};

}  // namespace sluice
