#include "experiments/data/change/label_noise.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/config/numbers.h"
#include "experiments/data/data_sets.h"
#include "experiments/data/samples/samples.h"
#include "experiments/data/samples/validation.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::label_noise_test {

constexpr std::int64_t kSamples = 2000;

DataSet digits(double share, double held_back = 0) {
  ConfigNode config = {.value = ConfigNode::Table{}};
  config.set("train", {.value = kSamples});
  config.set("test", {.value = std::int64_t{20}});
  Fields fields(&config, "data");
  return with_label_noise(
      with_validation(
          find_row(data_sets(), "drawn_digits", "data set").make(fields)(""),
          {.amount = held_back}),
      {.share = share});
}

/// By what names the sample outside of Sluice.
using Labels = std::map<std::int64_t, std::int64_t>;

Labels places_and_labels(const Split& split, EpochKey key = {.seed = 1}) {
  Labels labels;
  const auto samples = split.samples();
  for (std::int64_t i = 0; i < split.size(); ++i)
    labels[samples->position(i, key)] =
        samples->batch({&i, 1}, key).labels.item<std::int64_t>();
  return labels;
}

/// How many of the samples have the same label in both.
std::int64_t equal_labels(const Labels& left, const Labels& right) {
  std::int64_t equal = 0;
  for (const auto& [position, label] : left)
    equal += right.at(position) == label;
  return equal;
}

TEST(LabelNoise, ReplacesTheShareThatWasAskedFor) {
  // Half are drawn anew, and a tenth of these by chance as they were: 1100 of
  // 2000 stay, give or take 22.
  const std::int64_t kept = equal_labels(places_and_labels(digits(0.5).train),
                                         places_and_labels(digits(0).train));
  EXPECT_GT(kept, 1000);
  EXPECT_LT(kept, 1200);
}

TEST(LabelNoise, DrawsFromAllClassesAlike) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const auto& [position, label] : places_and_labels(digits(1).train))
    ++counts[label];
  ASSERT_EQ(counts.size(), 10U);
  for (const auto& [label, count] : counts) {
    EXPECT_GT(count, 130) << label;  // of 200, give or take 14
    EXPECT_LT(count, 270) << label;
  }
}

TEST(LabelNoise, LeavesTheSamplesAndTheOtherSplitsAsTheyAre) {
  const DataSet noisy = digits(1, 0.1);
  const DataSet plain = digits(0, 0.1);
  EXPECT_EQ(places_and_labels(noisy.test), places_and_labels(plain.test));
  EXPECT_EQ(places_and_labels(noisy.validation),
            places_and_labels(plain.validation));
  EXPECT_NE(places_and_labels(noisy.train), places_and_labels(plain.train));
  const std::int64_t first = 0;
  EXPECT_TRUE(at::equal(noisy.train.samples()->batch({&first, 1}, {}).inputs,
                        plain.train.samples()->batch({&first, 1}, {}).inputs));
}

TEST(LabelNoise, IsTheSameInEveryEpochAndWhatABatchHoldsBeside) {
  const DataSet data = digits(0.5);
  const auto samples = data.train.samples();
  const Labels first = places_and_labels(data.train);
  EXPECT_EQ(places_and_labels(data.train, {.seed = 1, .epoch = 3}), first);
  const std::vector<std::int64_t> some = {7, 1999, 0};
  const at::Tensor labels = samples->batch(some, {.seed = 1}).labels;
  for (std::size_t i = 0; i < some.size(); ++i)
    EXPECT_EQ(labels[static_cast<std::int64_t>(i)].item<std::int64_t>(),
              first.at(some[i]));
}

TEST(LabelNoise, FollowsFromTheSeedOfTheRun) {
  const DataSet data = digits(1);
  const std::int64_t equal =
      equal_labels(places_and_labels(data.train),
                   places_and_labels(data.train, {.seed = 2}));
  EXPECT_GT(equal, 100);  // a tenth by chance
  EXPECT_LT(equal, 300);
}

TEST(LabelNoise, LabelNoiseOfASampleDoesNotDependOnWhichOthersAreHeldBack) {
  const Labels whole = places_and_labels(digits(0.5).train);
  const Labels part = places_and_labels(digits(0.5, 0.3).train);
  EXPECT_EQ(part.size(), 1400U);
  EXPECT_EQ(equal_labels(part, whole), 1400);
}

TEST(LabelNoise, LabelNoiseOfTextsIsRefused) {
  EXPECT_THROW(with_label_noise({.sample = {.is_text = true}}, {.share = 0.1}),
               UserError);
}

NamedTensors trained(const std::string& data, const std::string& rest) {
  Training training(
      small_experiment("turns = 25\nmodel = {hidden = [16, 12]}\ndata = {train "
                       "= 320, test = 64" +
                       data + "}\n" + rest));
  training.train();
  return training.weights();
}

TEST(LabelNoise, GivesTheSameBitsForAnyCut) {
  const std::string noise = ", label_noise = 0.5";
  EXPECT_EQ(
      difference(trained(noise, "blocks = 1"), trained(noise, "blocks = 3")),
      "");
  EXPECT_NE(difference(trained(noise, "blocks = 1"), trained("", "blocks = 1")),
            "");
}

/// As a config was resolved before these keys were there.
ConfigNode without_new_keys(ConfigNode resolved) {
  ConfigNode data = *resolved.find("data");
  std::erase_if(std::get<ConfigNode::Table>(data.value), [](const auto& entry) {
    return entry.first == "label_noise" || entry.first == "evaluate_training";
  });
  resolved.set("data", data);
  return resolved;
}

TEST(LabelNoise, LabelNoiseOfNoneLeavesOlderRunsTheSame) {
  const ConfigNode resolved = small_experiment("").resolved;
  const ConfigNode older = without_new_keys(resolved);
  EXPECT_EQ(first_difference(numbers_of(older), numbers_of(resolved)), "");
  EXPECT_EQ(fingerprint_of(numbers_of(older)),
            fingerprint_of(numbers_of(resolved)));
}

TEST(LabelNoise, IsOneOfTheNumbersOfARun) {
  const ConfigNode noisy =
      small_experiment("data = {train = 320, test = 64, label_noise = 0.5}\n")
          .resolved;
  EXPECT_NE(fingerprint_of(numbers_of(noisy)),
            fingerprint_of(numbers_of(without_new_keys(noisy))));
}

}  // namespace sluice::label_noise_test
