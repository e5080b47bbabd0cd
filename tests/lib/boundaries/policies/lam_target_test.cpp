// The lambda of the synthesizers' target beside that of the signal: the
// recursions of the specification (methods, 0.1 item 6 and section 1.1).
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/schedules/plan/plan.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_synthetic.h"

namespace sluice::lam_target_test {

using testing::HasSubstr;

constexpr const char* kNet =
    "blocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + "}\n";
}

/// "" or ", lam_target = 0.75".
std::string synthetic(const std::string& lam_target) {
  return "policy = 'synthetic_gradient', synthesizer = {hidden = 1, width = "
         "16}" +
         lam_target;
}

std::string blend(double lambda, const std::string& lam_target) {
  return "boundary = {policy = 'blend', sources = [{weight = " +
         std::to_string(1 - lambda) + ", " + synthetic(lam_target) +
         "}, {policy = 'backprop', weight = " + std::to_string(lambda) +
         "}]}\n";
}

std::string dni(const std::string& lam_target) {
  return "boundary = {" + synthetic(lam_target) + "}\n";
}

std::string lam_target(double value) {
  return ", lam_target = " + std::to_string(value);
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

NamedTensors only(const NamedTensors& all, const std::string& prefix) {
  NamedTensors chosen;
  for (const auto& named : all)
    if (named.first.starts_with(prefix)) chosen.push_back(named);
  return chosen;
}

TEST(LamTarget, FollowsItsRecursion) {
  for (const auto& [lambda, target] :
       {std::pair(0.25, 0.75), std::pair(0.25, 0.0), std::pair(0.5, 1.0),
        std::pair(1.0, 0.5)}) {
    const std::string lines =
        kNet + rate(0.05) + blend(lambda, lam_target(target));
    EXPECT_EQ(difference(trained(lines),
                         plain_synthetic(
                             lines, {.lambda = lambda, .lam_target = target})),
              "")
        << lambda << ", " << target;
  }
}

TEST(LamTarget, GoesWithASignalThatIsSyntheticAlone) {
  const std::string lines = kNet + rate(0.05) + dni(lam_target(0.75));
  const NamedTensors found = trained(lines);
  EXPECT_EQ(difference(found, plain_synthetic(lines, {.lam_target = 0.75})),
            "");
  const std::string as_blend = kNet + rate(0.05) + blend(0, lam_target(0.75));
  EXPECT_EQ(difference(trained(as_blend), found), "");
}

TEST(LamTarget, IsTheSignalsByDefault) {
  for (const double lambda : {0.0, 0.25, 1.0}) {
    const std::string rest = kNet + rate(0.05);
    const NamedTensors by_default = trained(rest + blend(lambda, ""));
    EXPECT_EQ(difference(by_default,
                         trained(rest + blend(lambda, lam_target(lambda)))),
              "")
        << lambda;
    EXPECT_EQ(difference(by_default, plain_synthetic(rest + blend(lambda, ""),
                                                     {.lambda = lambda})),
              "")
        << lambda;
  }
  EXPECT_EQ(difference(trained(kNet + rate(0.05) + dni("")),
                       trained(kNet + rate(0.05) + dni(lam_target(0)))),
            "");
}

/// The top's synthesizer has the true target in any case.
TEST(LamTarget, ChangesWhatTheLowerSynthesizerLearns) {
  const std::string rest = kNet + rate(0.05);
  const NamedTensors one = trained(rest + blend(0.25, ""));
  const NamedTensors other = trained(rest + blend(0.25, lam_target(1)));
  EXPECT_GT(distance(only(one, "synthesizers.0."), other), 1e-4);
}

TEST(LamTarget, LamTargetOfTwoBlocksIsWithoutEffect) {
  const std::string rest =
      "blocks = ['0', '1-']\nmodel = {hidden = [24]}\n" + rate(0.05);
  EXPECT_EQ(difference(trained(rest + blend(0.25, "")),
                       trained(rest + blend(0.25, lam_target(1)))),
            "");
}

TEST(LamTarget, KeepsItsGradientsApartBelowADelayToo) {
  const auto delayed = [](const std::string& target) {
    return kNet + rate(0.05) +
           "boundary = {policy = 'blend', sources = [{weight = 0.75, " +
           synthetic(target) +
           "}, {policy = 'delayed_gradient', weight = 0.25}]}\n";
  };
  const NamedTensors by_default = trained(delayed(""));
  EXPECT_EQ(difference(by_default, trained(delayed(lam_target(0.25)))), "");
  EXPECT_GT(distance(by_default, trained(delayed(lam_target(1)))), 1e-5);
}

TEST(LamTarget, GoesThroughABoundaryOfBackprop) {
  const auto net = [](const std::string& target) {
    return "blocks = ['0', '1', '2', '3']\nmodel = {hidden = [24, 20, 16]}\n" +
           rate(0.05) + "boundary = {1 = {" + synthetic("") +
           "}, 2 = {policy = 'backprop'}, 3 = {policy = 'blend', sources = "
           "[{weight = 0.75, " +
           synthetic(target) + "}, {policy = 'backprop', weight = 0.25}]}}\n";
  };
  const NamedTensors by_default = trained(net(""));
  EXPECT_EQ(difference(by_default, trained(net(lam_target(0.25)))), "");
  EXPECT_GT(distance(only(by_default, "synthesizers.0."),
                     trained(net(lam_target(1)))),
            1e-5);
}

constexpr Traits kApart{.from_above = true,
                        .own = true,
                        .lower = {.learns = true, .lam_target = 0.5}};

TEST(LamTarget, SendsASecondGradientOnlyWhereASynthesizerWantsIt) {
  // Boundary 1 wants it, 2 makes it; what comes down boundary 3 is the truth.
  const RunPlan plan = make_run_plan({kApart, kApart, kApart}, false);
  std::string leaving;
  for (const BlockPlan& block : plan.blocks)
    leaving += std::to_string(block.gradients.leaving);
  EXPECT_EQ(leaving, "0221");
  const RunPlan none = make_run_plan({{}, {}, kApart}, false);
  leaving.clear();
  for (const BlockPlan& block : none.blocks)
    leaving += std::to_string(block.gradients.leaving);
  EXPECT_EQ(leaving, "0111");
}

TEST(LamTarget, IsRefusedBesideAReach) {
  try {
    make_run_plan({{.own = true, .reach = {1}}, kApart, {}}, false);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("boundary 1: a reach can't go with"));
  }
}

}  // namespace sluice::lam_target_test
