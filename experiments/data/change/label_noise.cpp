#include "experiments/data/change/label_noise.h"

#include <memory>
#include <utility>

#include "experiments/data/samples/changed_samples.h"
#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

class NoisyLabels final : public RelabelledSamples {
 public:
  NoisyLabels(std::shared_ptr<const Samples> of, double share,
              std::int64_t classes)
      : RelabelledSamples(std::move(of)),
        share_(share),
        classes_(static_cast<std::uint64_t>(classes)) {}

 private:
  Batch changed(Batch batch, std::span<const std::int64_t> indices,
                EpochKey key) const override {
    // Labels [N], in memory of their own.
    auto* label = batch.labels.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      *label = label_instead_of(*label, of_->position(index, key), key.seed);
      ++label;
    }
    return batch;
  }

  std::int64_t label_instead_of(std::int64_t label, std::int64_t position,
                                std::uint64_t seed) const {
    KeyedRandom random(random_key(
        {seed, key_part("label noise"), static_cast<std::uint64_t>(position)}));
    if (random.uniform() >= share_) return label;
    return static_cast<std::int64_t>(random.below(classes_));
  }

  double share_;
  std::uint64_t classes_;
};

}  // namespace

void LabelNoise::describe(Fields& fields) {
  fields.key("label_noise", share,
             {.text = "share of the training labels that are replaced by drawn "
                      "ones, keyed by seed and sample; a drawn label may be "
                      "the right one. Labels of the validation and test splits "
                      "stay",
              .min = 0,
              .max = 1});
}

DataSet with_label_noise(DataSet data, const LabelNoise& noise) {
  if (noise.share == 0) return data;
  if (data.sample.is_text)
    throw UserError(
        "data.label_noise = {} replaces the label of an image, and a text has "
        "one at every place: leave it out",
        noise.share);
  if (data.sample.targets == Targets::values)
    throw UserError(
        "data.label_noise = {} replaces classes by others, and the targets of "
        "this data set are numbers: leave it out",
        noise.share);
  const Split train = data.train;
  const std::int64_t classes = data.sample.classes;
  data.train = {train.size(), [train, share = noise.share, classes] {
                  return std::make_shared<NoisyLabels>(train.samples(), share,
                                                       classes);
                }};
  return data;
}

}  // namespace sluice
