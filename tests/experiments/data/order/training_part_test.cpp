#include "experiments/data/order/training_part.h"

#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "experiments/data/data_sets.h"
#include "experiments/data/samples/samples.h"
#include "lib/base/error.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::training_part_test {

DataSet digits(std::int64_t samples) {
  ConfigNode config = {.value = ConfigNode::Table{}};
  config.set("train", {.value = std::int64_t{200}});
  config.set("test", {.value = std::int64_t{20}});
  Fields fields(&config, "data");
  return with_training_part(
      find_row(data_sets(), "drawn_digits", "data set").make(fields)(""),
      {.samples = samples});
}

std::vector<std::int64_t> positions_in(const Split& split) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < split.size(); ++i)
    positions.push_back(split.samples()->position(i, {}));
  return positions;
}

TEST(ATrainingPart, IsSpreadOverTheTrainingSamples) {
  const auto some = positions_in(digits(4).training_part);
  ASSERT_EQ(some.size(), 4);
  for (std::size_t i = 0; i < some.size(); ++i)
    EXPECT_EQ(some[i] / 50, static_cast<std::int64_t>(i));
  EXPECT_EQ(positions_in(digits(4).training_part), some);
}

/// As those of some files do.
TEST(ATrainingPart, HasAllClassesWhereTheyFollowEachOtherInTurn) {
  std::set<std::int64_t> remainders;
  for (const std::int64_t position : positions_in(digits(20).training_part))
    remainders.insert(position % 10);
  EXPECT_GE(remainders.size(), 6);
}

TEST(ATrainingPart, TakesNothingFromTheTraining) {
  EXPECT_EQ(digits(50).train.size(), 200);
  std::vector<std::int64_t> all(200);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(positions_in(digits(200).training_part), all);
}

TEST(ATrainingPart, IsNotThereUnlessAskedFor) {
  EXPECT_EQ(digits(0).training_part.size(), 0);
}

TEST(ATrainingPart, TrainingPartOfMoreSamplesThanThereAreIsRefused) {
  EXPECT_THROW(digits(201), UserError);
}

class LastEvaluation final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "evaluation") last = record;
  }
  Record last;
};

std::string net(const std::string& data) {
  return "turns = 20\nblocks = 2\nmodel = {hidden = [24]}\n"
         "data = {train = 384, test = 80" +
         data + "}\n";
}

struct Figures {
  double loss = 0;
  double accuracy = 0;
};

/// Figures of the trained net on all samples of a split, by a plain forward.
Figures figures_on(const Split& split, const Training& training) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(split.size()));
  std::iota(all.begin(), all.end(), 0);
  const Batch batch = split.samples()->batch(
      all, {.seed = training.experiment.seed, .augmented = false});
  const NamedTensors weights = training.weights();  // of two linear layers
  const at::NoGradGuard no_grad;
  const at::Tensor hidden = at::relu(at::linear(
      batch.inputs.flatten(1), weights.at(0).second, weights.at(1).second));
  const at::Tensor logits =
      at::linear(hidden, weights.at(2).second, weights.at(3).second);
  return {
      at::cross_entropy_loss(logits, batch.labels).item<double>(),
      logits.argmax(1).eq(batch.labels).to(at::kDouble).mean().item<double>()};
}

TEST(ATrainingPart, IsEvaluatedBetweenTheOtherSplits) {
  const auto sink = std::make_shared<LastEvaluation>();
  Training training(
      small_experiment(net(", validation = 64, evaluate_training = 100")),
      sink);
  training.train();
  const DataSet& data = *training.experiment.data;
  const auto expect = [&](const Split& split, const std::string& name) {
    const Figures expected = figures_on(split, training);
    EXPECT_NEAR(sink->last.number(name + "loss", 0), expected.loss, 1e-5);
    EXPECT_NEAR(sink->last.number(name + "accuracy", 0), expected.accuracy,
                1e-9);
  };
  expect(data.validation, "validation_");
  expect(data.training_part, "training_");
  expect(data.test, "");
}

TEST(ATrainingPart, HasTheLabelsThatAreTrainedOn) {
  const auto sink = std::make_shared<LastEvaluation>();
  Training training(
      small_experiment(net(", label_noise = 1.0, evaluate_training = 384")),
      sink);
  training.train();
  const Figures expected =
      figures_on(training.experiment.data->train, training);
  EXPECT_NEAR(sink->last.number("training_loss", 0), expected.loss, 1e-5);
}

TEST(ATrainingPart, IsToldOfNoRunThatDidNotAskForIt) {
  const auto sink = std::make_shared<LastEvaluation>();
  Training(small_experiment(net("")), sink).train();
  EXPECT_EQ(sink->last.find("training_loss"), nullptr);
  EXPECT_NE(sink->last.find("loss"), nullptr);
}

NamedTensors trained(const std::string& data) {
  Training training(small_experiment(net(data)));
  training.train();
  return training.weights();
}

TEST(ATrainingPart, ChangesNoBitOfTheTraining) {
  EXPECT_EQ(difference(trained(", evaluate_training = 100"), trained("")), "");
}

}  // namespace sluice::training_part_test
