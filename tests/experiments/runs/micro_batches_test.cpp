// Turns that are cut into several batches, and backwards in two halves, as
// networks learn by them.
#include <algorithm>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "auxiliary_heads/heads.h"
#include "auxiliary_heads/predictors/predictors.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "lib/schedules/plan/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::micro_batches_test {

constexpr const char* kNet =
    "blocks = ['0', '1', '2']\n"
    "model = {hidden = [24, 20], dropout = 0.2}\n";
constexpr const char* kMaps =
    "blocks = ['0', '1', '2-']\nturns = 6\n"
    "model = {name = 'conv3', channels = 8}\n";

std::string rate(double lr) {
  return "optimizer = {name = 'sgd', momentum = 0.9, lr = " +
         std::to_string(lr) + "}\n";
}

NamedTensors trained(const Experiment& experiment) {
  Training training(experiment);
  training.train();
  return training.weights();
}

NamedTensors trained(const std::string& lines) {
  return trained(small_experiment(lines));
}

const char* const kCut =
    "batch_size = 32\nturns = 6\npipeline.micro_batches = 4\n";
// A quarter is a power of two: a mean of four gradients has the bits of a sum
// of four whose losses count a quarter.
const char* const kAccumulated =
    "batch_size = 8\nturns = 24\naccumulate = {batches = 4, rule = 'mean'}\n";

class EveryBoundary : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    MicroBatches, EveryBoundary,
    testing::Values("{policy = 'backprop'}",
                    "{policy = 'local_loss', head = {name = 'linear'}}",
                    "{policy = 'local_loss', reach = 1}",
                    "{policy = 'target_projection'}",
                    "{policy = 'blend', sources = [{policy = 'backprop', "
                    "weight = 0.5}, {policy = 'local_loss', weight = 0.5}]}"));

TEST_P(EveryBoundary, BoundariesOfATurnTrainAsTheirMeanDoes) {
  const std::string rest = kNet + rate(0.1) + "boundary = " + GetParam() + "\n";
  EXPECT_EQ(difference(trained(kCut + rest), trained(kAccumulated + rest)), "");
  EXPECT_GT(distance(trained(kCut + rest),
                     trained(kCut + std::string(kNet) + rate(0.05) +
                             "boundary = " + GetParam() + "\n")),
            1e-4);
}

TEST_P(EveryBoundary, IsTheSameWithBackwardsInTwoHalves) {
  for (const char* net : {kNet, kMaps}) {
    Experiment experiment =
        small_experiment(net + rate(0.05) + "boundary = " + GetParam() + "\n");
    const NamedTensors whole = trained(experiment);
    for (BlockPlan& block : experiment.plans[0].blocks) {
      block.visits.clear();  // orders with halves have none
      block.program = [](const BlockPlan& plan, const Grant& grant) {
        return with_split_backwards(turns_of(plan, grant));
      };
    }
    EXPECT_EQ(difference(trained(experiment), whole), "") << net;
  }
}

TEST_P(EveryBoundary, HasTheSameBitsInEveryOrder) {
  for (const char* net : {kNet, kMaps}) {
    const auto in_order = [&](const char* order) {
      return trained(
          net + rate(0.05) + "batch_size = 16\nboundary = " + GetParam() +
          "\npipeline = {micro_batches = 4, order = '" + order + "'}\n");
    };
    const NamedTensors turns = in_order("turns");
    for (const char* order : {"gpipe", "1f1b", "zb-h1"})
      EXPECT_EQ(difference(in_order(order), turns), "") << order << net;
  }
}

TEST(MicroBatchRuns, HaveTheGradientOfTheUndividedTurn) {
  const std::string net =
      "blocks = 2\nmodel = {hidden = [24]}\nturns = 5\nbatch_size = 12\n" +
      rate(0.1) + "boundary = {policy = 'backprop'}\n";
  const NamedTensors undivided = trained(net);
  for (const char* count : {"2", "3", "12"})
    EXPECT_LT(
        distance(trained(net + "pipeline.micro_batches = " + count + "\n"),
                 undivided),
        1e-5)
        << count;
  EXPECT_GT(distance(trained(net + "accumulate = {batches = 2}\n"), undivided),
            1e-3);
}

TEST(MicroBatchRuns, WeighTheBatchesOfAShortTurnByTheirSamples) {
  // 21 samples: a turn of 12 in batches of 4, and one of 9 in 4, 4 and 1.
  const std::string net =
      "blocks = 2\ndata = {name = 'drawn_digits', train = 21, test = 8}\n"
      "model = {hidden = [24]}\nturns = 6\nbatch_size = 12\n" +
      rate(0.1) + "boundary = {policy = 'backprop'}\n";
  EXPECT_LT(
      distance(trained(net + "pipeline.micro_batches = 3\n"), trained(net)),
      1e-5);
  EXPECT_LT(
      distance(trained(net + "pipeline.micro_batches = 6\n"), trained(net)),
      1e-5);
}

TEST(MicroBatchRuns, SeeTheStatisticsOfTheirOwnBatch) {
  const std::string rest =
      rate(0.05) + "batch_size = 16\nboundary = {policy = 'backprop'}\n";
  EXPECT_GT(distance(trained(kMaps + rest + "pipeline.micro_batches = 2\n"),
                     trained(kMaps + rest)),
            1e-4);
}

TEST(MicroBatchRuns, ScaleWhatASynthesizerSaysByTheirShare) {
  const ConfigNode none;
  Fields fields(&none, "boundary");
  BoundarySite site;
  site.features = {6};
  site.classes = 3;
  const auto lower =
      find_row(policies(), "synthetic_gradient", "policy")
          .make.configure(fields, {heads(), configure_synthesizer})
          .lower(site);
  for (const auto& [name, weight] : lower->learners())
    weight.detach().normal_(0, 0.1, Pass{}.generator(name));
  const Tensors features = {at::randn({4, 6}, Pass{}.generator("h"))};
  const at::Tensor labels = at::arange(4).remainder(3);
  const Tensors target = {at::randn({4, 6}, Pass{}.generator("g"))};
  const auto of_share = [&](double share) {
    const Tensors from_above = {target[0] * share};
    const BatchContext context{.features = features,
                               .labels = labels,
                               .from_above = from_above,
                               .share = share};
    const Signal signal = lower->signal(context);
    return std::pair(signal.gradients[0], lower->learn(context).loss);
  };
  const auto [whole, loss] = of_share(1);
  const auto [quarter, loss_of_quarter] = of_share(0.25);
  EXPECT_TRUE(quarter.equal(whole * 0.25));
  EXPECT_GT(whole.abs().max().item<double>(), 0);
  EXPECT_TRUE(loss_of_quarter.equal(loss)) << "it learns the whole gradient";
}

TEST(MicroBatchRuns, TrainSynthesizersAndInputModels) {
  const std::string rest =
      std::string("blocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n") +
      rate(0.05) +
      "boundary = {policy = 'synthetic_gradient', synthesizer = {hidden = 0}, "
      "unlock = {hidden = 0, optimizer = {name = 'sgd', lr = 0.001}}}\n";
  const NamedTensors before = trained(
      "batch_size = 32\nturns = 1\npipeline.micro_batches = 4\n" + rest);
  const NamedTensors after = trained(kCut + rest);
  for (const char* kind : {"synthesizers.", "input_models.", "layers."}) {
    NamedTensors mine;
    for (const auto& named : after)
      if (named.first.starts_with(kind)) mine.push_back(named);
    EXPECT_GT(distance(mine, before), 1e-6) << kind;
  }
}

}  // namespace sluice::micro_batches_test
