// What each method costs, as the program finds out, against counts by hand for
// four blocks, and four replicas.
#include "experiments/planner/method_axes.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/planner/operations.h"
#include "experiments/program/help/axes_table.h"
#include "experiments/program/help/method_examples.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::method_axes_test {

using planner::MethodAxes;
using testing::HasSubstr;

MethodAxes axes_of(const MethodExample& example) {
  return planner::method_axes(
      example_experiment(example, kAxesShape, /*with_its_model=*/true));
}

MethodAxes of_policy(std::string_view name) {
  return axes_of(example_of(find_row(policies(), name, "policy")));
}

MethodAxes of_preset(std::string_view name) {
  return axes_of(example_of(find_row(presets(), name, "preset")));
}

TEST(MethodAxes, AxesOfBackpropAreAForwardAndABackwardAndWhatTheySend) {
  const MethodAxes axes = of_policy("backprop");
  EXPECT_EQ(axes.forwards, 0);
  EXPECT_EQ(axes.backwards, 0);
  EXPECT_EQ(axes.lessons, 0);
  EXPECT_EQ(axes.own_signals, 0);
  EXPECT_EQ(axes.steps, 1);
  EXPECT_DOUBLE_EQ(axes.boundary_bytes, 2);
  EXPECT_EQ(axes.replica_bytes, 0);
  EXPECT_EQ(axes.copies, 1);
  EXPECT_EQ(axes.batches, 0);
  EXPECT_EQ(axes.updates, 0);
  EXPECT_EQ(axes.apart, 0);
}

TEST(MethodAxes, AxesOfLocalLossesHaveHeadsInPlaceOfGradients) {
  const MethodAxes axes = of_policy("local_loss");
  EXPECT_EQ(axes.own_signals, 3);
  EXPECT_DOUBLE_EQ(axes.boundary_bytes, 1);
  EXPECT_EQ(axes.batches, 0);
}

TEST(MethodAxes, AxesOfMonoForwardAreThoseOfLocalLosses) {
  const MethodAxes axes = of_preset("mono_forward");
  EXPECT_EQ(axes.own_signals, 3);
  EXPECT_DOUBLE_EQ(axes.boundary_bytes, 1);
  EXPECT_EQ(axes.batches, 0);
  EXPECT_EQ(of_preset("auto_assist").own_signals, 0);
}

/// Passes count for batches that are trained on; the losses that come down are
/// as small as labels, and left out like them.
TEST(MethodAxes, AxesOfAutoAssistAreThoseOfItsPolicy) {
  const MethodAxes axes = of_preset("auto_assist");
  EXPECT_EQ(axes.forwards, 0);
  EXPECT_EQ(axes.backwards, 0);
  EXPECT_DOUBLE_EQ(axes.boundary_bytes, 2);
  EXPECT_EQ(axes.copies, 1);
  EXPECT_EQ(axes.batches, 0);
  EXPECT_EQ(axes.updates, 0);
}

/// A synthesizer at each of three boundaries learns from each batch.
TEST(MethodAxes, AxesOfSyntheticGradientsHaveLessons) {
  const MethodAxes axes = of_policy("synthetic_gradient");
  EXPECT_DOUBLE_EQ(axes.lessons, 0.75);
  EXPECT_DOUBLE_EQ(axes.boundary_bytes, 2);
}

/// All blocks but the last forward again.
TEST(MethodAxes, AxesOfFeaturesReplayCountItsReplay) {
  const MethodAxes axes = of_policy("features_replay");
  EXPECT_DOUBLE_EQ(axes.forwards, 0.75);
  EXPECT_EQ(axes.batches, 3);
  EXPECT_EQ(of_policy("delayed_gradient").forwards, 0);
}

/// Late by K - k, and by twice that.
TEST(MethodAxes, AxesOfPipelinesHaveTheirStalenessAndVersions) {
  const MethodAxes stashing = of_preset("pipedream");
  const MethodAxes mixed = of_preset("pipedream_mixed");
  EXPECT_EQ(stashing.updates, 3);
  EXPECT_EQ(stashing.batches, 3);
  EXPECT_EQ(mixed.updates, 3);
  EXPECT_EQ(mixed.copies, 1);
  EXPECT_GT(stashing.copies, 1);
  EXPECT_LE(stashing.copies, 4);
  EXPECT_EQ(of_preset("pipelined_backprop").updates, 6);
  EXPECT_EQ(of_preset("pipedream_2bw").updates, 1);
}

TEST(MethodAxes, AxesOfExactPipelinesAreThoseOfBackprop) {
  for (const char* name : {"gpipe", "pipedream_flush", "zb_h1", "zb_v"}) {
    const MethodAxes axes = of_preset(name);
    EXPECT_EQ(axes.backwards, 0) << name;
    EXPECT_DOUBLE_EQ(axes.boundary_bytes, 2) << name;
    EXPECT_EQ(axes.copies, 1) << name;
    EXPECT_EQ(axes.updates, 0) << name;
  }
  EXPECT_EQ(of_preset("pipedream_flush").forwards, 0);
  EXPECT_EQ(of_preset("gpipe").forwards, 1);
}

/// Inputs go down beside gradients, and are rebuilt by another forward.
TEST(MethodAxes, AxesOfPetraSendMoreAndKeepNothing) {
  const MethodAxes axes = of_preset("petra");
  EXPECT_GT(axes.boundary_bytes, 2);
  EXPECT_LE(axes.boundary_bytes, 3);
  EXPECT_GT(axes.forwards, of_policy("features_replay").forwards);
  EXPECT_EQ(axes.copies, 1);
}

/// A sum goes round a ring: 2 (4 - 1) / 4 of the model.
TEST(MethodAxes, AxesOfSumsAreThoseOfARing) {
  const MethodAxes axes = of_preset("synchronous_sgd");
  EXPECT_DOUBLE_EQ(axes.replica_bytes, 1.5);
  EXPECT_DOUBLE_EQ(axes.boundary_bytes, 2);
  EXPECT_EQ(axes.copies, 1);
  EXPECT_EQ(axes.apart, 0);
  EXPECT_DOUBLE_EQ(of_preset("zero_1").replica_bytes, 1.5);
  const MethodAxes local = of_preset("local_sgd");
  EXPECT_DOUBLE_EQ(local.replica_bytes, 1.5 / 8);
  EXPECT_EQ(local.apart, 8);
  EXPECT_EQ(local.copies, 1);
}

/// Where all met and a momentum, or a centre.
TEST(MethodAxes, AxesOfOuterOptimizersAndCentresCountWhatTheyKeep) {
  EXPECT_DOUBLE_EQ(of_preset("diloco").copies, 3);
  EXPECT_DOUBLE_EQ(of_preset("bmuf").copies, 3);
  EXPECT_DOUBLE_EQ(of_preset("easgd").copies, 2);
  EXPECT_DOUBLE_EQ(of_preset("easgd").replica_bytes, 1.5 / 4);
}

/// Each to its two neighbours, or to one.
TEST(MethodAxes, AxesOfPeersAreTheirMessages) {
  EXPECT_DOUBLE_EQ(of_preset("d_psgd").replica_bytes, 2);
  EXPECT_DOUBLE_EQ(of_preset("ad_psgd").replica_bytes, 1);
  EXPECT_DOUBLE_EQ(of_preset("gossip_grad").replica_bytes, 1);
  EXPECT_EQ(of_preset("d_psgd").apart, 1);
  EXPECT_NEAR(of_preset("sgp").copies, 2, 0.01);
  const MethodAxes neighbours = of_preset("nearest_neighbours");
  EXPECT_DOUBLE_EQ(neighbours.replica_bytes, 2);
  EXPECT_DOUBLE_EQ(neighbours.steps, 3);
}

/// Four steps to an update, each by a gradient that misses three.
TEST(MethodAxes, AxesOfAServerHaveItsStalenessAndItsCopies) {
  const MethodAxes axes = of_preset("downpour");
  EXPECT_DOUBLE_EQ(axes.steps, 4);
  EXPECT_EQ(axes.updates, 3);
  EXPECT_DOUBLE_EQ(axes.replica_bytes, 3);
  EXPECT_NEAR(axes.copies, 1 + 4, 0.01);
  EXPECT_EQ(of_preset("agn").updates, 0);
  EXPECT_EQ(of_preset("agn").apart, 5);
}

/// With clocks of their own they bring a gradient to it and take its weights,
/// and it makes its steps alone.
TEST(MethodAxes, AxesOfACentreAreAWayThereAndBack) {
  const MethodAxes axes = of_preset("softsync");
  EXPECT_DOUBLE_EQ(axes.steps, 1);
  EXPECT_DOUBLE_EQ(axes.replica_bytes, 2);
  EXPECT_DOUBLE_EQ(of_preset("backup_workers").replica_bytes, 2);
}

/// Nothing is sent; of four that are equally fast the last one finds the
/// updates of three.
TEST(MethodAxes, AxesOfSharedWeightsSendNothingAndAreLate) {
  const MethodAxes axes = of_preset("hogwild");
  EXPECT_EQ(axes.replica_bytes, 0);
  EXPECT_EQ(axes.updates, 3);
  EXPECT_DOUBLE_EQ(axes.copies, 2);
  EXPECT_EQ(axes.apart, 1);
}

TEST(MethodAxes, AxesOfCompressorsHaveFewerBytesAndTheirMemory) {
  for (const char* name :
       {"one_bit_sgd", "top_k_sgd", "dgc", "threshold_sgd", "qsgd", "signsgd",
        "signum", "ef_signsgd", "power_sgd"}) {
    EXPECT_LT(of_preset(name).replica_bytes, 0.75) << name;
    EXPECT_GT(of_preset(name).replica_bytes, 0) << name;
  }
  EXPECT_DOUBLE_EQ(of_preset("top_k_sgd").copies, 2);
  EXPECT_DOUBLE_EQ(of_preset("dgc").copies, 3);
  EXPECT_DOUBLE_EQ(of_preset("qsgd").copies, 1);
  EXPECT_DOUBLE_EQ(of_preset("signsgd").copies, 1);
  EXPECT_DOUBLE_EQ(of_preset("signum").copies, 2);
}

TEST(MethodAxes, LayersThatRunAgainTakeAForwardMore) {
  EXPECT_DOUBLE_EQ(of_preset("checkpointing").forwards, 1);
  Experiment experiment = example_experiment(
      example_of(find_row(presets(), "checkpointing", "preset")), kAxesShape,
      /*with_its_model=*/true);
  const auto forwards_in_a_backward = [&] {
    const BlockCosts block = planner::computed_costs(experiment).blocks.at(0);
    return block.seconds[Op::backward] / block.seconds[Op::forward];
  };
  EXPECT_DOUBLE_EQ(forwards_in_a_backward(), 3);
  experiment.checkpoint_layers = 0;
  EXPECT_DOUBLE_EQ(forwards_in_a_backward(), 2);
  EXPECT_DOUBLE_EQ(planner::method_axes(experiment).forwards, 0);
}

TEST(MethodAxes, AreSaidInWords) {
  MethodAxes axes;
  EXPECT_EQ(planner::computation_text(axes), "none");
  axes = {.forwards = 0.75,
          .own_signals = 2,
          .boundaries = 3,
          .replica_bytes = 1.5,
          .copies = 2,
          .batches = 1,
          .updates = 1,
          .apart = 8};
  EXPECT_EQ(planner::computation_text(axes),
            "0.75 more forwards; signals made at 2 of 3 boundaries");
  EXPECT_EQ(planner::communication_text(axes), "replicas 1.5 x the model each");
  EXPECT_EQ(planner::approximation_text(axes),
            "2 x the weights; gradients up to 1 update (1 batch) late; "
            "replicas differ, and meet in every 8 updates");
}

TEST(AxesTable, HasARowForEveryMethodAndPreset) {
  const Outcome table = sluice("list methods --axes");
  ASSERT_EQ(table.status, 0) << table.text;
  for (const PolicyRow& row : policies())
    EXPECT_THAT(table.text, HasSubstr("| `" + std::string(row.name) + "` "));
  for (const PresetRow& row : presets())
    EXPECT_THAT(table.text, HasSubstr("| `" + std::string(row.name) + "` "));
}

TEST(AxesTable, IsOfAllMethods) {
  const Outcome heads = sluice("list heads --axes");
  EXPECT_NE(heads.status, 0);
  EXPECT_THAT(heads.text, HasSubstr("sluice list methods --axes"));
}

}  // namespace sluice::method_axes_test
