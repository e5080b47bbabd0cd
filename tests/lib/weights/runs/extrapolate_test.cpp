// PipeMare's T2 (methods, C6): backwards at weights that are moved back to
// about those of the forward.
#include <string>

#include <gtest/gtest.h>

#include "tests/oracles/delay_oracle.h"

namespace sluice::extrapolate_test {

std::string net(double lr) {
  return "blocks = ['0-1', '2-3', '4-']\nturns = 30\n"
         "model = {hidden = [24, 20, 24, 20, 16]}\n"
         "optimizer = {lr = " +
         std::to_string(lr) + ", momentum = 0.9}\n";
}

std::string policy(const std::string& rest) {
  return "boundary = {" + rest + "}\n";
}

Applications applications(const std::string& lines) {
  return Training(small_experiment(lines)).train_and_record();
}

void expect_close(const Applications& left, const Applications& right) {
  for (const auto& [block, updates] : left) {
    ASSERT_EQ(updates.size(), 30U);
    EXPECT_LT(distance(updates, right.at(block)), 1e-6) << "block " << block;
  }
}

/// The oracle rounds the product by itself.
TEST(Extrapolate, IsABackwardByHandAtWeightsMovedBack) {
  struct Case {
    const char* policy;
    DelayOracle::Method method;
  };
  for (const Case& each :
       {Case{"policy = 'delayed_gradient', weights = 'extrapolate'",
             {.velocity_decay = 0.1}},
        Case{"policy = 'delayed_gradient', weights = 'extrapolate', decay = "
             "0.5",
             {.velocity_decay = 0.5}},
        Case{"policy = 'fully_decoupled', weights = 'extrapolate'",
             {.delay = 2, .backward_first = true, .velocity_decay = 0.1}}}) {
    const std::string lines = net(0.05) + policy(each.policy);
    DelayOracle::Method method = each.method;
    method.weights = DelayOracle::Weights::mixed;
    method.rate = 0.05;
    method.momentum = 0.9;
    const Applications ours = applications(lines);
    const Training of(small_experiment(lines));
    expect_close(ours, DelayOracle(of, method).train());
    method.velocity_decay = 0;
    EXPECT_GT(distance(ours.at(1), DelayOracle(of, method).train().at(1)), 1e-4)
        << each.policy;
  }
}

TEST(Extrapolate, IsMixedAtLearningRateZero) {
  const auto with = [](const char* weights) {
    return applications(net(0) + policy(std::string("policy = "
                                                    "'delayed_gradient', "
                                                    "weights = '") +
                                        weights + "'"));
  };
  const Applications mixed = with("mixed");
  for (const auto& [block, updates] : with("extrapolate"))
    EXPECT_EQ(difference(updates, mixed.at(block)), "") << block;
}

TEST(Extrapolate, IsCloserToStashThanMixedWhereWeightsMoveSteadily) {
  const auto first_block = [](const char* weights) {
    return applications(net(0.005) + policy(std::string("policy = "
                                                        "'delayed_gradient', "
                                                        "weights = '") +
                                            weights + "'"))
        .at(1);
  };
  const auto stash = first_block("stash");
  EXPECT_LT(distance(first_block("extrapolate"), stash),
            distance(first_block("mixed"), stash));
}

}  // namespace sluice::extrapolate_test
