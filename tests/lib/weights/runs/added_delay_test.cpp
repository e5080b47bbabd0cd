// [delay]: gradients that come late though no block delays them.
#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"
#include "tests/lib/weights/runs/delayed_sgd.h"

namespace sluice::added_delay_test {

constexpr const char* kOne = "1";
constexpr const char* kThree = "['0', '1-2', '3-']";

std::string late(const std::string& turns, const std::string& weights) {
  return "delay = {turns = " + turns + ", weights = '" + weights + "'}\n";
}

std::string ddg(const std::string& weights) {
  return "boundary = {policy = 'delayed_gradient', weights = '" + weights +
         "'}\n";
}

TEST(AddedDelay, IsDelayedSgdHoweverTheNetworkIsCut) {
  for (const char* ranges : {kOne, kThree})
    for (const std::size_t turns : {1U, 2U, 7U}) {
      const std::string lines = delayed_net(ranges, 0.05) + kBackprop;
      const NamedTensors ours =
          trained(lines + late(std::to_string(turns), "stash"));
      EXPECT_EQ(difference(ours, DelayedSgd(lines).train(turns)), "") << turns;
      EXPECT_NE(difference(ours, DelayedSgd(lines).train(turns + 1)), "");
    }
}

TEST(AddedDelay, WithoutTurnsIsBackprop) {
  const std::string lines = delayed_net(kThree, 0.05) + kBackprop;
  for (const char* turns : {"0", "[0, 0, 0]"})
    EXPECT_EQ(difference(trained(lines + late(turns, "stash")), trained(lines)),
              "");
}

TEST(AddedDelay, IsDdgWithKMinusKTurnsInBlockK) {
  for (const char* weights :
       {"stash", "recompute", "mixed", "predict", "extrapolate"}) {
    const std::string lines = delayed_net(kThree, 0.05, ", momentum = 0.9");
    const NamedTensors delayed = trained(lines + ddg(weights));
    EXPECT_EQ(
        difference(trained(lines + kBackprop + late("[2, 1, 0]", weights)),
                   delayed),
        "")
        << weights;
    EXPECT_NE(
        difference(trained(lines + kBackprop + late("[2, 2, 0]", weights)),
                   delayed),
        "")
        << weights;
  }
}

TEST(AddedDelay, CorrectsAsMuchAsThereIsStaleness) {
  const std::string lines =
      delayed_net(kThree, 0.05,
                  ", momentum = 0.9, correction = {name = "
                  "'spike_compensation'}");
  EXPECT_EQ(difference(trained(lines + kBackprop + late("[2, 1, 0]", "stash")),
                       trained(lines + ddg("stash"))),
            "");
}

TEST(AddedDelay, AtLearningRateZeroHasTheGradientsOfBackprop) {
  const std::string lines = delayed_net(kThree, 0) + kBackprop;
  const Applications exact =
      Training(small_experiment(lines)).train_and_record();
  const Applications ours =
      Training(small_experiment(lines + late("3", "stash"))).train_and_record();
  for (const auto& [block, updates] : ours)
    EXPECT_EQ(difference(updates, exact.at(block)), "") << block;
}

TEST(AddedDelay, IsThatOfItsBlockAloneBelowALocalLoss) {
  const std::string lines =
      delayed_net(kThree, 0.05) + "boundary = {policy = 'local_loss'}\n";
  const auto block = [&](const std::string& turns, int number) {
    return Training(small_experiment(lines + late(turns, "stash")))
        .train_and_record()
        .at(number);
  };
  EXPECT_EQ(difference(block("[0, 2, 5]", 1), block("0", 1)), "");
  EXPECT_NE(difference(block("[0, 2, 5]", 2), block("0", 2)), "");
}

}  // namespace sluice::added_delay_test
