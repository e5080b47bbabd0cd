// Upper ends of one's own: what a block takes as its input, and what it sends
// down beside gradients.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::upper_end_test {

std::string net(double lr) {
  return "blocks = ['0', '1', '2']\nturns = 6\nmodel = {hidden = [24, 20]}\n"
         "optimizer = {lr = " +
         std::to_string(lr) + "}\nboundary = {policy = 'backprop'}\n";
}

/// What has come down beside the gradients, in the order of the lessons.
using LessonTensors = std::vector<Tensors>;

/// Back-propagation that gets the weights of the block above.
class BackpropWithWeights final : public Lower {
 public:
  explicit BackpropWithWeights(std::shared_ptr<LessonTensors> seen)
      : seen_(std::move(seen)) {}
  Traits traits() const override {
    return {.lower = {.learns = true}, .upper = UpperEnd::answers};
  }
  Signal signal(const BatchContext& context) override {
    Signal signal;
    signal.gradients = context.from_above;
    return signal;
  }
  Lesson learn(const BatchContext& context) override {
    seen_->push_back(context.answer);
    return {};
  }

 private:
  std::shared_ptr<LessonTensors> seen_;
};

class Telling final : public Upper {
 public:
  Tensors answer(const Block& block) override {
    Tensors weights;
    for (const auto& [name, weight] : block.parameters())
      weights.push_back(weight.detach().clone());
    return weights;
  }
};

struct TrainingOutcome {
  NamedTensors weights;
  LessonTensors told;
  Tensors of_block_2;
};

TrainingOutcome learned(double lr) {
  Experiment experiment = small_experiment(net(lr));
  const auto seen = std::make_shared<LessonTensors>();
  const MakeBoundary make = {
      [=](const BoundarySite&) {
        return std::make_unique<BackpropWithWeights>(seen);
      },
      [](const BoundarySite&) { return std::make_unique<Telling>(); }};
  experiment.phases[0][0].make = make;
  experiment.plans = {make_run_plan(
      {{.lower = {.learns = true}, .upper = UpperEnd::answers}, {}}, false)};
  Training training(experiment);
  TrainingOutcome done;
  for (const auto& [name, weight] : training.block(2).weights())
    done.of_block_2.push_back(weight.detach().clone());
  training.train();
  done.weights = training.weights();
  done.told = *seen;
  return done;
}

TEST(UpperEnd, AnswersBesideTheGradients) {
  Training plain(small_experiment(net(0.1)));
  plain.train();
  const TrainingOutcome told = learned(0.1);
  EXPECT_EQ(difference(told.weights, plain.weights()), "")
      << "gradients pass as they did";
  ASSERT_EQ(told.told.size(), 6U);
  ASSERT_EQ(told.told[0].size(), told.of_block_2.size());
  EXPECT_TRUE(told.told[0][0].equal(told.of_block_2[0]))
      << "before its first update";
  EXPECT_FALSE(told.told[5][0].equal(told.of_block_2[0])) << "it learns";
  EXPECT_TRUE(learned(0).told[5][0].equal(told.of_block_2[0]));
}

/// A block that takes what comes from below, times two.
class Doubling final : public Upper {
 public:
  Payload inputs(const InputContext& /*context*/,
                 const std::function<Payload()>& next) override {
    Payload payload = next();
    payload.features[0] = payload.features[0] * 2;
    return payload;
  }
};

TEST(UpperEnd, DecidesWhatABlockForwards) {
  const auto trained = [](bool doubles) {
    Experiment experiment = small_experiment(net(0.1));
    if (doubles)
      experiment.phases[0][1].make.upper = [](const BoundarySite&) {
        return std::make_unique<Doubling>();
      };
    Training training(experiment);
    training.train();
    return training.weights();
  };
  EXPECT_EQ(difference(trained(false), trained(false)), "");
  EXPECT_GT(distance(trained(true), trained(false)), 1e-4);
}

}  // namespace sluice::upper_end_test
