#include "experiments/data/drawn/noise.h"

#include <memory>
#include <string_view>
#include <utility>

#include <ATen/ops/empty.h>

#include "experiments/data/drawn/nearly_normal.h"
#include "experiments/data/samples/samples.h"
#include "experiments/data/samples/validation.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

struct NoiseOptions {
  std::vector<std::int64_t> shape = {3, 32, 32};
  std::int64_t classes = 10;
  std::int64_t context = 0;
  std::int64_t vocabulary = 256;
  std::int64_t train = 10'000;
  std::int64_t test = 1'000;
  std::int64_t seed = 0;

  void describe(Fields& fields) {
    fields.key("shape", shape,
               {.text = "shape of a sample: [C, H, W] of an image, [n] of a "
                        "vector",
                .min = 1,
                .max = 100'000});
    fields.key("classes", classes,
               {.text = "classes of the labels", .min = 1, .max = 1e9});
    fields.key("context", context,
               {.text = "length of a text, in place of shape and classes; 0: "
                        "no text",
                .unit = "tokens",
                .min = 0,
                .max = 1'000'000});
    fields.key("vocabulary", vocabulary,
               {.text = "tokens of a text are below it",
                .unit = "tokens",
                .min = 1,
                .max = 1e9});
    fields.key("train", train,
               {.text = "number of training samples", .min = 1, .max = 1e9});
    fields.key("test", test,
               {.text = "number of test samples", .min = 1, .max = 1e9});
    fields.key("seed", seed, {.text = "which samples are drawn", .min = 0});
    check(fields);
  }

  bool is_text() const { return context > 0; }
  SampleSpec sample() const {
    if (is_text())
      return {.shape = {context}, .classes = vocabulary, .is_text = true};
    return {.shape = shape, .classes = classes};
  }

 private:
  void check(const Fields& fields) const {
    if (shape.size() != 1 && shape.size() != 3)
      fields.reject("shape", "is [C, H, W] of an image or [n] of a vector");
    // A resolved config has all keys: those with their defaults are not meant.
    const NoiseOptions unset;
    if (!is_text() || (shape == unset.shape && classes == unset.classes))
      return;
    fields.reject(shape == unset.shape ? "classes" : "shape",
                  "goes with samples that are no text: leave out "
                  "data.context, or set data.vocabulary");
  }
};

class NoiseSamples final : public Samples {
 public:
  NoiseSamples(NoiseOptions options, std::string_view split, std::int64_t size)
      : options_(std::move(options)),
        key_(random_key({key_part("noise"), key_part(split),
                         static_cast<std::uint64_t>(options_.seed)})),
        size_(size) {}

  std::int64_t size() const override { return size_; }
  std::int64_t position(std::int64_t index, EpochKey /*key*/) const override {
    return index;
  }

  Batch batch(std::span<const std::int64_t> indices,
              EpochKey /*key*/) const override {
    return options_.is_text() ? texts(indices) : classified(indices);
  }

 private:
  KeyedRandom random_of(std::int64_t index) const {
    return KeyedRandom(random_key({key_, static_cast<std::uint64_t>(index)}));
  }

  Batch classified(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> sizes = {std::ssize(indices)};
    sizes.insert(sizes.end(), options_.shape.begin(), options_.shape.end());
    Batch batch;
    batch.inputs = at::empty(sizes, at::kFloat);
    batch.labels = at::empty({std::ssize(indices)}, at::kLong);
    const std::int64_t values = batch.inputs.numel() / std::ssize(indices);
    auto* input = batch.inputs.mutable_data_ptr<float>();
    auto* label = batch.labels.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      KeyedRandom random = random_of(index);
      *label++ = static_cast<std::int64_t>(
          random.below(static_cast<std::uint64_t>(options_.classes)));
      for (std::int64_t i = 0; i < values; ++i)
        *input++ = static_cast<float>(nearly_normal(random.next()));
    }
    return batch;
  }

  Batch texts(std::span<const std::int64_t> indices) const {
    const std::vector<std::int64_t> sizes = {std::ssize(indices),
                                             options_.context};
    Batch batch;
    batch.inputs = at::empty(sizes, at::kLong);
    batch.labels = at::empty(sizes, at::kLong);
    auto* input = batch.inputs.mutable_data_ptr<std::int64_t>();
    auto* label = batch.labels.mutable_data_ptr<std::int64_t>();
    const auto bound = static_cast<std::uint64_t>(options_.vocabulary);
    for (const std::int64_t index : indices) {
      KeyedRandom random = random_of(index);
      auto token = static_cast<std::int64_t>(random.below(bound));
      for (std::int64_t t = 0; t < options_.context; ++t) {
        *input++ = token;
        token = static_cast<std::int64_t>(random.below(bound));
        *label++ = token;
      }
    }
    return batch;
  }

  NoiseOptions options_;
  std::uint64_t key_;
  std::int64_t size_;
};

Split split_of(const NoiseOptions& options, std::string_view name,
               std::int64_t size) {
  return {size, [=] {
            return std::make_shared<const NoiseSamples>(options, name, size);
          }};
}

}  // namespace

MakeDataSet configure_noise(Fields& fields) {
  NoiseOptions options;
  options.describe(fields);
  const ValidationOptions validation = read_validation(fields);
  return [options, validation](const std::string&) {
    DataSet data;
    data.sample = options.sample();
    data.train = split_of(options, "train", options.train);
    data.test = split_of(options, "test", options.test);
    return with_validation(std::move(data), validation);
  };
}

}  // namespace sluice
