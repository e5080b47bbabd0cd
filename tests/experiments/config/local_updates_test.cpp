// The configs of local updates (experiments/configs/cifar10/mlp_*.toml) are the
// methods that their names say, on other data.
#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/extends.h"
#include "experiments/config/reading/read_experiment.h"

namespace sluice::local_updates_test {

Experiment experiment_of(const std::string& name) {
  ConfigNode config =
      read_config_file(std::string(SLUICE_TEST_FOLDER) +
                       "/../experiments/configs/cifar10/mlp_" + name + ".toml");
  config.set_path("data.name", {.value = std::string("drawn_digits")});
  return read_experiment(config, "");
}

/// Number of blocks below the last that get a gradient from above.
std::int64_t taught_from_above(const Experiment& experiment) {
  const auto& blocks = experiment.plans.front().blocks;
  return std::count_if(
      blocks.begin(), blocks.end() - 1,
      [](const BlockPlan& block) { return block.gradients.from_above; });
}

TEST(LocalUpdates, LocalUpdatesOfChunksCutTheNetIntoTwoAndFour) {
  for (const auto& [name, chunks] :
       {std::pair{"two_chunks", 2}, std::pair{"four_chunks", 4}}) {
    const Experiment experiment = experiment_of(name);
    EXPECT_EQ(experiment.blocks(), chunks);
    EXPECT_EQ(taught_from_above(experiment), 0) << name;
  }
}

TEST(LocalUpdates, ThatAreGreedyTeachEachHiddenLayerByItself) {
  const Experiment experiment = experiment_of("greedy");
  EXPECT_EQ(experiment.blocks(), 8);
  EXPECT_EQ(taught_from_above(experiment), 0);
}

TEST(LocalUpdates, ThatOverlapOrInterlockTeachEachLayerFromAboveToo) {
  for (const char* name : {"overlapping", "interlocking"}) {
    const Experiment experiment = experiment_of(name);
    EXPECT_EQ(experiment.blocks(), 8) << name;
    EXPECT_EQ(taught_from_above(experiment), 7) << name;
  }
}

TEST(LocalUpdates, AreComparedWithBackpropOnTheSameNet) {
  const Experiment backprop = experiment_of("backprop");
  EXPECT_EQ(taught_from_above(backprop), 1);
  EXPECT_EQ(backprop.model.layers.size(),
            experiment_of("overlapping").model.layers.size());
}

TEST(LocalUpdates, LocalUpdatesOfRandomLabelsEvaluateWhatTheyTrainOn) {
  const Experiment experiment = experiment_of("random_labels");
  EXPECT_EQ(experiment.data->training_part.size(), 5000);
}

}  // namespace sluice::local_updates_test
