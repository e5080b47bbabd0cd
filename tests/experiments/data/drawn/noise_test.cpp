// The data set `noise`.
#include "experiments/data/drawn/noise.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/data/samples/samples.h"
#include "lib/base/config.h"

namespace sluice::noise_test {

DataSet noise(const std::string& keys) {
  const ConfigNode table = parse_toml(keys, "test.toml");
  Fields fields(&table, "data");
  const MakeDataSet make = configure_noise(fields);
  fields.finish();
  return make("");
}

TEST(Noise, HasImagesOfAnyShape) {
  const DataSet data =
      noise("shape = [3, 8, 6]\nclasses = 4\ntrain = 400\ntest = 7");
  EXPECT_EQ(data.sample.shape, (SampleShape{3, 8, 6}));
  EXPECT_EQ(data.sample.classes, 4);
  EXPECT_EQ(data.test.size(), 7);
  std::vector<std::int64_t> all(400);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::int64_t>(i);
  const Batch batch = data.train.samples()->batch(all, {});
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<std::int64_t>{400, 3, 8, 6}));
  // Mean and deviation over 57,600 numbers: five standard errors.
  EXPECT_NEAR(batch.inputs.mean().item<double>(), 0, 0.021);
  EXPECT_NEAR(batch.inputs.std().item<double>(), 1, 0.015);
  for (int label = 0; label < 4; ++label)
    EXPECT_GT(batch.labels.eq(label).sum().item<std::int64_t>(), 50);
}

TEST(Noise, ASampleIsThatOfItsIndex) {
  const DataSet data = noise("shape = [5]\nseed = 3");
  const auto inputs = [](const Split& split,
                         const std::vector<std::int64_t>& indices) {
    return split.samples()->batch(indices, {}).inputs;
  };
  const at::Tensor one = inputs(data.train, {9, 4});
  EXPECT_TRUE(at::equal(one[1], inputs(data.train, {4})[0]));
  EXPECT_FALSE(at::equal(one[0], one[1]));
  EXPECT_FALSE(at::equal(one[1], inputs(data.test, {4})[0]));
  EXPECT_FALSE(
      at::equal(one[1], inputs(noise("shape = [5]\nseed = 4").train, {4})[0]));
}

TEST(Noise, HasTextsWhoseLabelsAreTheNextTokens) {
  const DataSet data = noise("context = 50\nvocabulary = 300");
  EXPECT_TRUE(data.sample.is_text);
  EXPECT_EQ(data.sample.classes, 300);
  const std::vector<std::int64_t> some = {0, 5};
  const Batch batch = data.train.samples()->batch(some, {});
  EXPECT_TRUE(
      at::equal(batch.inputs.slice(1, 1), batch.labels.slice(1, 0, -1)));
  EXPECT_GE(batch.labels.min().item<std::int64_t>(), 0);
  EXPECT_LT(batch.labels.max().item<std::int64_t>(), 300);
  EXPECT_GT(batch.labels.max().item<std::int64_t>(), 255);
}

}  // namespace sluice::noise_test
