// The data set `clusters`.
#include "experiments/data/drawn/clusters.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/data/samples/samples.h"
#include "lib/base/config.h"

namespace sluice::clusters_test {

DataSet clusters(const std::string& keys) {
  const ConfigNode table = parse_toml(keys, "test.toml");
  Fields fields(&table, "data");
  const MakeDataSet make = configure_clusters(fields);
  fields.finish();
  return make("");
}

Batch first(const Split& split, std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return split.samples()->batch(all, {});
}

TEST(Clusters, HaveTheirCentresOnTheUnitSphere) {
  const DataSet data =
      clusters("classes = 3\nclusters = 2\nsize = 7\ndeviation = 0.0");
  EXPECT_EQ(data.sample.shape, (SampleShape{7}));
  EXPECT_EQ(data.sample.classes, 3);
  const Batch batch = first(data.train, 12);
  EXPECT_TRUE(batch.inputs.norm(2, 1).allclose(at::ones(12), 1e-6));
  EXPECT_TRUE(batch.labels.equal(at::tensor(
      std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2})));
  const at::Tensor centres = batch.inputs.narrow(0, 0, 6);
  EXPECT_TRUE(centres.equal(batch.inputs.narrow(0, 6, 6)));
  EXPECT_TRUE(centres.equal(first(data.test, 6).inputs));
  for (int other = 1; other < 6; ++other)
    EXPECT_FALSE(centres[0].allclose(centres[other], 1e-2)) << other;
}

TEST(Clusters, HaveSamplesAtTheDeviationAroundTheirCentres) {
  const std::string keys = "classes = 1\nclusters = 1\nsize = 64\ntrain = 900";
  const Batch batch = first(clusters(keys).train, 900);
  const at::Tensor centre =
      first(clusters(keys + "\ndeviation = 0.0").train, 1).inputs[0];
  const at::Tensor around = batch.inputs - centre;
  // Over 57,600 numbers: five standard errors.
  EXPECT_NEAR(around.mean().item<double>(), 0, 0.011);
  EXPECT_NEAR(around.std().item<double>(), 0.5, 0.0075);
}

TEST(Clusters, ASampleIsThatOfItsIndexAndSplit) {
  const DataSet data = clusters("size = 5\ntest = 64\nseed = 3");
  const at::Tensor inputs = first(data.train, 40).inputs;
  EXPECT_FALSE(inputs[0].equal(inputs[32])) << "of one cluster";
  const std::vector<std::int64_t> one = {32};
  EXPECT_TRUE(data.train.samples()->batch(one, {}).inputs[0].equal(inputs[32]));
  EXPECT_FALSE(first(data.test, 1).inputs[0].equal(inputs[0]));
  EXPECT_FALSE(first(clusters("size = 5\nseed = 4").train, 1)
                   .inputs[0]
                   .equal(inputs[0]));
}

}  // namespace sluice::clusters_test
