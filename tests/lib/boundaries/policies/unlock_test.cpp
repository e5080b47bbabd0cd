// Unlock: blocks that train on what input models predict of the features from
// below (methods, section 1.1), with label D7 of section 1.7.
#include "lib/boundaries/policies/unlock.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "auxiliary_heads/predictors/predictors.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_synthetic.h"

namespace sluice::unlock_test {

using testing::HasSubstr;

constexpr const char* kNet =
    "blocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + "}\n";
}

/// more: ", unlock = {...}" or nothing.
std::string dni(const std::string& more) {
  return "boundary = {policy = 'synthetic_gradient', synthesizer = {hidden = "
         "1, width = 16}" +
         more + "}\n";
}
/// At the rate of the blocks it would diverge: its loss is a sum over features,
/// and the images have 784 pixels.
constexpr const char* kUnlock =
    ", unlock = {hidden = 0, optimizer = {name = 'sgd', lr = 0.001}}";

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

class RecordValues final : public Sink {
 public:
  void write(const Record& record) override { records.push_back(record); }
  /// Values of that name in a block's records.
  std::vector<double> values(const char* name, int block = 0) const {
    std::vector<double> all;
    for (const Record& record : records)
      if (record.find(name) != nullptr &&
          (block == 0 || record.number("block", 0) == block))
        all.push_back(record.number(name, -1));
    return all;
  }
  std::vector<Record> records;
};

TEST(Unlock, FollowsItsEquations) {
  const std::string lines = kNet + rate(0.05) + dni(kUnlock);
  EXPECT_EQ(
      difference(trained(lines), plain_synthetic(lines, {.unlocked = true})),
      "");
}

TEST(Unlock, TrainsOnOtherInputsThanLockedBlocksDo) {
  const NamedTensors unlocked = trained(kNet + rate(0.05) + dni(kUnlock));
  const NamedTensors locked = trained(kNet + rate(0.05) + dni(""));
  EXPECT_GT(distance(only(unlocked, "layers.1."), locked), 1e-3);
}

/// When each block's forwards begin, at equal costs.
std::vector<std::vector<double>> forwards(bool unlocks) {
  const Traits boundary{
      .cut = true,
      .own = true,
      .lower = {.learns = true},
      .upper = unlocks ? UpperEnd::from_data : UpperEnd::plain};
  const RunPlan plan = make_run_plan({boundary, boundary, boundary}, false);
  const std::vector<Capacity> capacities = capacities_of(plan, 0);
  std::vector<std::vector<Action>> actions;
  for (const BlockPlan& block : plan.blocks)
    actions.push_back(actions_of(block, {.end_turn = 5}));
  const Costs costs{.blocks = std::vector<BlockCosts>(
                        4, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})};
  std::vector<std::vector<double>> starts(4);
  for (const TimedAction& timed : simulate(plan, costs, capacities, actions))
    if (timed.action.op == Op::forward)
      by_block(starts, timed.seat).push_back(timed.start);
  return starts;
}

TEST(Unlock, AllBlocksForwardABatchAtTheSameTime) {
  const std::vector<double> turns = {0, 3, 6, 9, 12};
  EXPECT_EQ(forwards(true), std::vector(4, turns));
  EXPECT_EQ(forwards(false)[3][0], 3) << "one after the other";
}

TEST(Unlock, APlanByHandMustForwardBeforeItLearns) {
  const Traits boundary{.cut = true, .own = true, .upper = UpperEnd::from_data};
  const RunPlan plan = make_run_plan({boundary}, false);
  const auto run = [&](const char* upper) {
    simulate(plan, {}, {{2, 2}},
             {actions_from_text("F0 B0 U0"), actions_from_text(upper)});
  };
  EXPECT_NO_THROW(run("F0 B0 U0 I0"));
  EXPECT_THROW(run("I0 F0 B0 U0"), UserError);
}

/// Knows the features, or gradients, of every batch.
using Truth = std::map<std::int64_t, at::Tensor>;

class InputOracle final : public Predictor {
 public:
  explicit InputOracle(Truth truth) : truth_(std::move(truth)) {}
  at::Tensor forward(const at::Tensor&, const at::Tensor&,
                     const Pass& pass) override {
    return truth_.at(pass.batch);
  }

 private:
  Truth truth_;
};

/// Writes down what passes a boundary of backprop.
class Witnessing final : public Lower {
 public:
  Witnessing(std::shared_ptr<Truth> features, std::shared_ptr<Truth> gradients)
      : features_(std::move(features)), gradients_(std::move(gradients)) {}
  Traits traits() const override { return {}; }
  Signal signal(const BatchContext& context) override {
    (*features_)[context.batch] = context.features[0].detach().clone();
    (*gradients_)[context.batch] = context.from_above[0].clone();
    Signal signal;
    signal.gradients = context.from_above;
    return signal;
  }

 private:
  std::shared_ptr<Truth> features_;
  std::shared_ptr<Truth> gradients_;
};

/// Says them again.
class TruthOracle final : public Lower {
 public:
  explicit TruthOracle(Truth gradients) : gradients_(std::move(gradients)) {}
  Traits traits() const override {
    return {.cut = true,
            .own = true,
            .lower = {.learns = true},
            .upper = UpperEnd::from_data};
  }
  Signal signal(const BatchContext& context) override {
    Signal signal;
    signal.gradients = {gradients_.at(context.batch)};
    return signal;
  }
  Lesson learn(const BatchContext& context) override {
    EXPECT_TRUE(context.from_above.at(0).equal(gradients_.at(context.batch)));
    return {};
  }

 private:
  Truth gradients_;
};

TEST(Unlock, D7_WithPerfectInputsAndSignalsIsBackprop) {
  Experiment experiment =
      small_experiment(kNet + rate(0.1) + "boundary = {policy = 'backprop'}\n");
  std::vector<std::shared_ptr<Truth>> features;
  std::vector<std::shared_ptr<Truth>> gradients;
  for (BoundaryPolicy& boundary : experiment.phases[0]) {
    features.push_back(std::make_shared<Truth>());
    gradients.push_back(std::make_shared<Truth>());
    boundary.make = [h = features.back(),
                     g = gradients.back()](const BoundarySite&) {
      return std::make_unique<Witnessing>(h, g);
    };
  }
  Training backprop(experiment);
  backprop.train();

  Experiment unlocked = small_experiment(kNet + rate(0.1) + dni(kUnlock));
  for (std::size_t i = 0; i < 2; ++i)
    unlocked.phases[0][i].make = {[g = *gradients[i]](const BoundarySite&) {
                                    return std::make_unique<TruthOracle>(g);
                                  },
                                  [h = *features[i]](const BoundarySite& site) {
                                    return make_input_model_end(
                                        std::make_shared<InputOracle>(h), site);
                                  }};
  const auto kept = std::make_shared<RecordValues>();
  Training oracle(unlocked, kept);
  oracle.train();
  EXPECT_EQ(difference(oracle.weights(), backprop.weights()), "");
  // The oracle's features are the very ones that come from below.
  const std::vector<double> losses = kept->values("input_loss");
  EXPECT_EQ(losses, std::vector<double>(40, 0));
}

TEST(Unlock, D7_WithInputModelsThatLearnIsNotBackprop) {
  const NamedTensors unlocked = trained(kNet + rate(0.1) + dni(kUnlock));
  EXPECT_GT(distance(only(unlocked, "layers."),
                     trained(kNet + rate(0.1) +
                             "boundary = {policy = 'backprop'}\n")),
            1e-3);
}

TEST(Unlock, AnInputModelComesCloserToTheFeatures) {
  const auto kept = std::make_shared<RecordValues>();
  Training training(
      small_experiment(
          "turns = 100\n" + std::string(kNet) + rate(0) +
          dni(", unlock = {hidden = 1, width = 64, optimizer = {name = "
              "'adam', lr = 1e-3}}")),
      kept);
  const NamedTensors before = copies_of(training.weights());
  training.train();
  EXPECT_GT(distance(only(training.weights(), "input_models."), before), 1e-3);
  EXPECT_EQ(
      difference(only(training.weights(), "layers."), only(before, "layers.")),
      "")
      << "it learns alone";
  for (const int block : {2, 3}) {
    const std::vector<double> losses = kept->values("input_loss", block);
    ASSERT_EQ(losses.size(), 100U);
    EXPECT_LT(losses.back(), 0.5 * losses.front()) << "block " << block;
  }
}

TEST(Unlock, IsEvaluatedOnTheRealFeatures) {
  const auto loss_of = [](const std::string& boundary) {
    const auto kept = std::make_shared<RecordValues>();
    Training training(small_experiment(kNet + rate(0) + boundary), kept);
    training.train();
    for (const Record& record : kept->records)
      if (record.text("kind") == "evaluation") return record.number("loss", -1);
    return -2.0;
  };
  EXPECT_EQ(loss_of(dni(kUnlock)), loss_of(dni("")));
}

TEST(Unlock, NamesItsModelsByTheLayerBelow) {
  const Training training(small_experiment(kNet + rate(0.1) +
                                           dni(", unlock = {label = true, "
                                               "hidden = 1, width = 7}")));
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& [name, tensor] : training.weights())
    if (name.starts_with("input_models.")) shapes[name] = tensor.sizes().vec();
  using Shape = std::vector<std::int64_t>;
  const std::map<std::string, Shape> expected = {
      {"input_models.0.linear1.weight", {7, 784}},
      {"input_models.0.linear1.bias", {7}},
      {"input_models.0.last.weight", {24, 7}},
      {"input_models.0.last.bias", {24}},
      {"input_models.0.label.weight", {7, 10}},
      {"input_models.1.linear1.weight", {7, 784}},
      {"input_models.1.linear1.bias", {7}},
      {"input_models.1.last.weight", {20, 7}},
      {"input_models.1.last.bias", {20}},
      {"input_models.1.label.weight", {7, 10}}};
  EXPECT_EQ(shapes, expected);
}

TEST(Unlock, UnlockOfOneBoundaryLeavesTheOthersLocked) {
  const Experiment experiment = small_experiment(
      kNet + rate(0.1) +
      "boundary = {1 = {policy = 'synthetic_gradient'}, 2 = {policy = "
      "'synthetic_gradient', unlock = {}}}\n");
  std::string unlocked;
  for (const BlockPlan& block : experiment.plans[0].blocks)
    unlocked += block.forwards_data() ? '1' : '0';
  EXPECT_EQ(unlocked, "001");
  Training training(experiment);
  training.train();
  EXPECT_EQ(only(training.weights(), "input_models.0.").size(), 0U);
}

TEST(Unlock, TrainsOnMaps) {
  for (const char* options : {"hidden = 0, label = true", "hidden = 1"}) {
    const auto kept = std::make_shared<RecordValues>();
    Training training(
        small_experiment(
            std::string("blocks = ['0', '1', '2-']\nturns = 30\n"
                        "model = {name = 'conv3', channels = 8}\n") +
            rate(0) +
            "boundary = {policy = 'synthetic_gradient', synthesizer = {hidden "
            "= 0}, unlock = {" +
            options + ", optimizer = {name = 'adam', lr = 1e-2}}}\n"),
        kept);
    training.train();
    for (const int block : {2, 3}) {
      const std::vector<double> losses = kept->values("input_loss", block);
      EXPECT_LT(losses.back(), 0.7 * losses.front()) << options;
    }
  }
}

TEST(Unlock, BringsTheRawInputToHeadsAbove) {
  const std::string lines =
      "blocks = ['0', '1', '2-']\nturns = 4\n"
      "model = {name = 'conv3', channels = 8}\n" +
      rate(0.05) +
      "boundary = {1 = {policy = 'synthetic_gradient', unlock = {}}, 2 = "
      "{policy = 'local_loss', head = {name = 'infopro'}}}\n";
  Training training(small_experiment(lines));
  const NamedTensors before = copies_of(training.weights());
  training.train();
  EXPECT_GT(distance(only(training.weights(), "heads."), before), 1e-5);
}

std::string refusal(const SampleShape& features, const Model& model) {
  Fields fields(nullptr, "boundary.unlock");
  BoundarySite site;
  site.features = features;
  site.classes = 3;
  site.model = &model;
  try {
    configure_input_model(fields)(site);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Unlock, RefusesWhatItCantPredict) {
  const auto model = [](const SampleSpec& sample) {
    return Model{.layers = {}, .sample = sample};
  };
  EXPECT_THAT(
      refusal({5, 6}, model({.shape = {5}, .classes = 9, .is_text = true})),
      HasSubstr("shape [5, 6]: the input is a text; leave out its unlock"));
  EXPECT_THAT(refusal({4, 3, 3}, model({.shape = {12}, .classes = 3})),
              HasSubstr("the input is no image"));
  EXPECT_THAT(refusal({4, 3}, model({.shape = {12}, .classes = 3})),
              HasSubstr("they are a sequence"));
  EXPECT_EQ(refusal({4, 3, 3}, model({.shape = {1, 8, 8}, .classes = 3})), "");
  EXPECT_EQ(refusal({4}, model({.shape = {1, 8, 8}, .classes = 3})), "");
}

TEST(Unlock, IsRefusedInABlend) {
  try {
    small_experiment(kNet + rate(0.1) +
                     "boundary = {policy = 'blend', sources = [{policy = "
                     "'synthetic_gradient', unlock = {}}]}\n");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a blend can't hold a source with an "
                                        "unlock"));
  }
}

class UnlockProgram : public Program {};

TEST_F(UnlockProgram, GivesTheSameBitsOnEveryEngine) {
  const std::string config = write(
      "unlock.toml", config_with(kNet + rate(0.05) +
                                 dni(", unlock = {hidden = 1, width = 16}")));
  const NamedTensors in_one_thread = weights_on("virtual", config);
  EXPECT_EQ(only(in_one_thread, "input_models.").size(), 8U);
  EXPECT_EQ(difference(weights_on("threads", config), in_one_thread), "");
  EXPECT_EQ(difference(weights_on("processes", config), in_one_thread), "");
}

TEST_F(UnlockProgram, ComesAndGoesInATimetable) {
  std::string one_line = dni(kUnlock);
  one_line.pop_back();
  const std::string config = write(
      "timetable.toml",
      config_with(
          kNet + rate(0.05) + dni(kUnlock) +
          "timetable = [{turn = 4, boundary = {policy = 'backprop'}}, {turn = "
          "8, " +
          one_line + "}]\n"));
  const NamedTensors weights = weights_on("virtual", config);
  EXPECT_EQ(only(weights, "input_models.").size(), 4U);
  EXPECT_EQ(difference(weights_on("processes", config), weights), "");
}

}  // namespace sluice::unlock_test
