#include "experiments/data/change/mixup.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/numbers.h"
#include "experiments/data/data_sets.h"
#include "experiments/data/samples/samples.h"
#include "lib/base/error.h"
#include "lib/blocks/loss.h"
#include "lib/metrics/record.h"
#include "tests/experiments/data/data_test_files.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::mixup_test {

using testing::HasSubstr;
using Indices = std::vector<std::int64_t>;

DataSet digits(double alpha) {
  ConfigNode config = {.value = ConfigNode::Table{}};
  config.set("train", {.value = std::int64_t{400}});
  config.set("test", {.value = std::int64_t{20}});
  Fields fields(&config, "data");
  return with_mixup(
      find_row(data_sets(), "drawn_digits", "data set").make(fields)(""),
      {.alpha = alpha});
}

Indices some(std::int64_t first, std::int64_t count) {
  Indices indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(first + 7 * i);
  return indices;
}

/// The share of the batch's own samples, told by the labels: of a sample whose
/// partner is of another class.
double share_of(const at::Tensor& mixed, const at::Tensor& labels) {
  for (std::int64_t n = 0; n < labels.numel(); ++n) {
    const double own = mixed[n][labels[n].item<std::int64_t>()].item<double>();
    if (own < 1) return own;
  }
  return 1;
}

TEST(Mixup, IsOneShareOfTheBatchAndTheRestOfItInAnotherOrder) {
  const auto plain = digits(0).train.samples();
  const auto mixed = digits(1).train.samples();
  const Indices indices = some(3, 12);
  const EpochKey key = {.seed = 4, .epoch = 2};
  const Batch before = plain->batch(indices, key);
  const Batch after = mixed->batch(indices, key);
  const double share = share_of(after.labels, before.labels);
  ASSERT_GT(share, 0);
  ASSERT_LT(share, 1);
  const at::Tensor hot = at::one_hot(before.labels, 10).to(at::kFloat);
  std::set<std::int64_t> partners;
  for (std::int64_t n = 0; n < 12; ++n) {
    const at::Tensor rest =
        (after.inputs[n] - share * before.inputs[n]) / (1 - share);
    for (std::int64_t m = 0; m < 12; ++m) {
      if (!at::allclose(rest, before.inputs[m], 1e-3, 1e-3)) continue;
      partners.insert(m);
      EXPECT_TRUE(at::allclose(
          after.labels[n], share * hot[n] + (1 - share) * hot[m], 1e-5, 1e-6));
    }
  }
  EXPECT_EQ(partners.size(), 12U) << "each is mixed into one";
}

TEST(Mixup, IsAPureFunctionOfSeedEpochAndBatch) {
  const auto mixed = digits(0.4).train.samples();
  const auto inputs = [&](std::int64_t first, EpochKey key) {
    return digits(0.4).train.samples()->batch(some(first, 5), key).inputs;
  };
  const at::Tensor seen = mixed->batch(some(2, 5), {.seed = 1}).inputs;
  mixed->batch(some(9, 5), {.seed = 1});
  EXPECT_TRUE(at::equal(mixed->batch(some(2, 5), {.seed = 1}).inputs, seen));
  EXPECT_TRUE(at::equal(inputs(2, {.seed = 1}), seen));
  EXPECT_FALSE(at::equal(inputs(2, {.seed = 2}), seen));
  EXPECT_FALSE(at::equal(inputs(2, {.seed = 1, .epoch = 1}), seen));
}

TEST(Mixup, LeavesAloneWhatIsAskedForWithoutRandomChanges) {
  const EpochKey key = {.seed = 4, .augmented = false};
  const Batch plain = digits(0).train.samples()->batch(some(0, 5), key);
  const Batch mixed = digits(1).train.samples()->batch(some(0, 5), key);
  EXPECT_TRUE(at::equal(mixed.inputs, plain.inputs));
  EXPECT_TRUE(at::equal(mixed.labels, plain.labels));
  EXPECT_TRUE(
      at::equal(all_of(digits(1).test).labels, all_of(digits(0).test).labels));
}

/// Mean and variance of the shares of many batches.
std::pair<double, double> moments(double alpha) {
  const DataSet data = digits(alpha);
  const DataSet plain = digits(0);
  double sum = 0;
  double squares = 0;
  constexpr int kBatches = 600;
  for (int i = 0; i < kBatches; ++i) {
    const EpochKey key = {.seed = 1, .epoch = i};
    const Indices indices = some(i % 300, 8);
    const double share =
        share_of(data.train.samples()->batch(indices, key).labels,
                 plain.train.samples()->batch(indices, key).labels);
    sum += share;
    squares += share * share;
  }
  const double mean = sum / kBatches;
  return {mean, squares / kBatches - mean * mean};
}

TEST(Mixup, DrawsSharesFromABetaDistribution) {
  // Beta(a, a): mean 1/2, variance 1 / (4 (2 a + 1)).
  for (const double alpha : {0.2, 1.0, 4.0}) {
    const auto [mean, variance] = moments(alpha);
    EXPECT_NEAR(mean, 0.5, 0.06) << alpha;
    EXPECT_NEAR(variance, 1 / (4 * (2 * alpha + 1)), 0.02) << alpha;
  }
}

TEST(Mixup, HasTheCrossEntropyThatIsTheMixtureOfBothLabels) {
  Fields fields(nullptr, "loss");
  const RunLoss loss = find_row(losses(), "cross_entropy", "loss").make(fields);
  const at::Tensor logits = at::sin(at::arange(20).to(at::kFloat)).view({4, 5});
  const at::Tensor first = at::tensor({0, 3, 2, 4}, at::kLong);
  const at::Tensor second = at::tensor({1, 3, 0, 2}, at::kLong);
  const at::Tensor shares = 0.3 * at::one_hot(first, 5).to(at::kFloat) +
                            0.7 * at::one_hot(second, 5).to(at::kFloat);
  EXPECT_NEAR(loss.training(logits, shares).item<double>(),
              0.3 * loss.training(logits, first).item<double>() +
                  0.7 * loss.training(logits, second).item<double>(),
              1e-6);
}

class Records final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "evaluation") evaluation = record;
    if (record.text("kind") == "train") train = record;
  }
  Record evaluation;
  Record train;
};

TEST(Mixup, TrainsBlocksWithEvaluationsOfPlainClasses) {
  for (const std::string boundary :
       {"{policy = \"backprop\"}",
        "{policy = \"local_loss\", head = {name = \"linear\"}}"}) {
    const auto sink = std::make_shared<Records>();
    Training training(
        small_experiment(
            "blocks = 2\nturns = 120\nmodel = {hidden = [32]}\n"
            "data = {train = 640, test = 100, difficulty = 0.2, "
            "mixup = 0.2, evaluate_training = 50}\n"
            "optimizer = {lr = 0.05, momentum = 0.9}\nboundary = " +
            boundary),
        sink);
    training.train();
    EXPECT_EQ(sink->train.find("accuracy"), nullptr) << boundary;
    EXPECT_GT(sink->evaluation.number("accuracy", 0), 0.3) << boundary;
    EXPECT_GT(sink->evaluation.number("training_accuracy", 0), 0.3) << boundary;
  }
}

ConfigNode without_new_keys(ConfigNode resolved) {
  ConfigNode data = *resolved.find("data");
  std::erase_if(std::get<ConfigNode::Table>(data.value),
                [](const auto& entry) { return entry.first == "mixup"; });
  ConfigNode augment = *data.find("augment");
  std::erase_if(
      std::get<ConfigNode::Table>(augment.value),
      [](const auto& entry) { return entry.first == "resized_crop"; });
  data.set("augment", augment);
  resolved.set("data", data);
  return resolved;
}

TEST(Mixup, MixupOfNoneAndAugmentationWithoutResizingLeaveOlderRunsTheSame) {
  const ConfigNode plain = small_experiment("").resolved;
  EXPECT_EQ(fingerprint_of(numbers_of(without_new_keys(plain))),
            fingerprint_of(numbers_of(plain)));
  for (const std::string key :
       {"mixup = 0.2", "augment = {resized_crop = 0.5}"}) {
    const ConfigNode changed =
        small_experiment("data = {train = 320, test = 64, " + key + "}\n")
            .resolved;
    EXPECT_NE(fingerprint_of(numbers_of(without_new_keys(changed))),
              fingerprint_of(numbers_of(changed)))
        << key;
  }
}

TEST(Mixup, RefusesWhatLooksAtClasses) {
  const std::string config =
      "blocks = 2\nmodel = {hidden = [8]}\n"
      "data = {train = 64, test = 20, mixup = 0.2}\n";
  EXPECT_THAT(
      error_of([&] {
        Training(small_experiment(config +
                                  "boundary.policy = \"target_projection\""))
            .train();
      }),
      HasSubstr("data.teacher make shares of them"));
}

}  // namespace sluice::mixup_test
