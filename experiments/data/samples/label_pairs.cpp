#include "experiments/data/samples/label_pairs.h"

#include <utility>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "experiments/data/samples/changed_samples.h"
#include "lib/base/random.h"
#include "modules/label_in_sample.h"

namespace sluice {
namespace {

class LabelPairs final : public ChangedSamples {
 public:
  LabelPairs(std::shared_ptr<const Samples> of, std::int64_t classes)
      : ChangedSamples(std::move(of)), classes_(classes) {}

  // A label is drawn into the image.
  at::Tensor raw(const at::Tensor& inputs) const override {
    return Samples::raw(inputs);
  }

 private:
  Batch changed(Batch batch, std::span<const std::int64_t> indices,
                EpochKey key) const override {
    const at::Tensor wrong = at::empty_like(batch.labels);
    auto* next = wrong.mutable_data_ptr<std::int64_t>();
    const auto* label = batch.labels.const_data_ptr<std::int64_t>();
    for (const std::int64_t index : indices)
      *next++ = wrong_label(*label++, index, key);
    batch.inputs = with_labels(batch.inputs,
                               at::stack({batch.labels, wrong}, 1), classes_);
    batch.labels = at::zeros_like(batch.labels);
    return batch;
  }

  std::int64_t wrong_label(std::int64_t label, std::int64_t index,
                           EpochKey key) const {
    KeyedRandom random(random_key({key.seed, key_part("wrong label"),
                                   static_cast<std::uint64_t>(key.epoch),
                                   static_cast<std::uint64_t>(index)}));
    const auto step = random.below(static_cast<std::uint64_t>(classes_ - 1));
    return (label + 1 + static_cast<std::int64_t>(step)) % classes_;
  }

  std::int64_t classes_;
};

}  // namespace

std::shared_ptr<const Samples> label_pairs(std::shared_ptr<const Samples> of,
                                           std::int64_t classes) {
  return std::make_shared<LabelPairs>(std::move(of), classes);
}

}  // namespace sluice
