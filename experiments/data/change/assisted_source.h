#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/data/change/assistant.h"
#include "experiments/data/order/sample_order.h"
#include "experiments/data/samples/samples.h"
#include "lib/blocks/source.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The batches of a training split, of which an assistant skips samples. The
/// samples come up in the order of SampleOrder, pass after pass; each is taken
/// or skipped by a draw that is keyed by (seed, place in that stream), against
/// AssistOptions::acceptance and the assistant's vote on the sample without
/// random changes; batch t has as many of those taken as it has without an
/// assistant. An epoch is a number of batches, as ever: as many samples trained
/// on as the split has, in which the stream makes one pass or more.
///
/// Batches are asked for one after the other. Batch t is a function of
/// (samples, options, losses of the batches up to t - lag): losses that come
/// earlier wait, and a batch whose losses have not come by then teaches
/// nothing. With acceptance = 1, or an assistant that is dead, samples are
/// taken without being looked at. Used by one thread.
class AssistedSource final : public Source {
 public:
  /// `of` what the samples are. options.lag is at least 1.
  AssistedSource(std::shared_ptr<const Samples> samples, const SampleSpec& of,
                 OrderOptions order, const AssistOptions& options);

  /// The batch of turn t. A t other than the next one begins where the stream
  /// of all samples has it.
  Batch batch(std::int64_t t) override;
  std::int64_t batches_per_epoch() const override {
    return order_.batches_per_epoch();
  }
  /// The figures are "skipped", the share of the samples that came up for the
  /// batch, and "passes" of the stream when it was full.
  std::vector<std::pair<std::string, double>> learn(
      std::int64_t t, const at::Tensor& losses) override;
  /// The assistant's tensors, named "assistant.*".
  NamedTensors state() const override;
  void restore(const NamedTensors& state, std::string_view source) override;

 private:
  /// The samples of a batch, until the assistant has learned from it.
  struct DrawnBatch {
    std::vector<std::int64_t> indices = {};
    std::int64_t pass = 0;     ///< in which the first of them came up
    std::int64_t skipped = 0;  ///< samples
    std::int64_t end = 0;      ///< place in the stream behind it
    at::Tensor losses = {};    ///< once they have come
  };

  void start_at(std::int64_t t);
  void learn_until(std::int64_t last);
  DrawnBatch draw(std::int64_t count);
  std::vector<std::int64_t> candidates(std::int64_t count);
  std::vector<bool> accepted(const std::vector<std::int64_t>& indices,
                             std::int64_t first) const;
  Batch plain(const std::vector<std::int64_t>& indices,
              std::int64_t pass) const;
  std::int64_t place_of(std::int64_t t) const;
  std::int64_t size_of(std::int64_t t) const;

  std::shared_ptr<const Samples> samples_;
  OrderOptions options_;
  AssistOptions assist_;
  SampleOrder order_;
  std::int64_t per_pass_;  ///< samples
  Assistant assistant_;
  std::int64_t next_ = -1;  ///< batch; -1: none has been asked for
  std::int64_t place_ = 0;  ///< in the stream
  std::map<std::int64_t, DrawnBatch> drawn_;  ///< by batch
};

}  // namespace sluice
