// What a network learns does not depend on how its samples are made.
#include "tests/experiments/helpers/training.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::data_training_test {

NamedTensors trained(const std::string& data, const std::string& blocks) {
  Training training(
      small_experiment("blocks = " + blocks +
                       "\nturns = 25\nmodel = {hidden = [16, 12]}\n"
                       "data = {train = 320, test = 64" +
                       data + "}\n"));
  training.train();
  return training.weights();
}

constexpr const char* kAugmented =
    ", augment = {crop = 2, flip = true, jitter = 0.4, cutout = 7}";

TEST(MakingSamples, AheadChangesNoBit) {
  EXPECT_EQ(difference(trained(", prefetch = 0", "1"),
                       trained(", prefetch = 3", "1")),
            "");
}

TEST(MakingSamples, AugmentedChangesTheWeights) {
  EXPECT_NE(difference(trained("", "1"), trained(kAugmented, "1")), "");
}

TEST(MakingSamples, AugmentedGivesTheSameBitsForAnyCut) {
  EXPECT_EQ(difference(trained(kAugmented, "1"), trained(kAugmented, "3")), "");
}

}  // namespace sluice::data_training_test
