#include "experiments/data/change/assisted_source.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/data/sets/images.h"

namespace sluice::data_assisted_source_test {

constexpr std::int64_t kSize = 10;
constexpr std::int64_t kBatch = 4;

/// Ten images of [2, 1, 2], each with a class of its own.
std::shared_ptr<const Samples> ten() {
  Images images;
  for (std::int64_t i = 0; i < kSize; ++i) {
    images.labels.push_back(static_cast<std::uint8_t>(i));
    for (std::int64_t p = 0; p < 4; ++p)
      images.pixels.push_back(static_cast<std::uint8_t>(4 * i + p));
  }
  return image_samples({.channels = 2,
                        .height = 1,
                        .width = 2,
                        .classes = kSize,
                        .mean = {0.5, 0.25},
                        .std = {0.5, 0.125}},
                       {}, std::move(images));
}

OrderOptions in_order(bool drop_last = false) {
  return {.batch_size = kBatch, .seed = 3, .drop_last = drop_last};
}

AssistedDraws draws_with(const AssistOptions& options, bool drop_last = false,
                         std::int64_t stride = 1) {
  return AssistedDraws(ten(), {.shape = {2, 1, 2}, .classes = kSize},
                       in_order(drop_last), options, stride);
}

AssistedSource with(const AssistOptions& options, bool drop_last = false) {
  return AssistedSource(draws_with(options, drop_last), options.lag);
}

/// Samples of even classes are hard.
at::Tensor losses_of(const Batch& batch) {
  return at::remainder(batch.labels + 1, 2).to(at::kDouble) +
         0.01 * batch.labels.to(at::kDouble);
}

double figure(const std::vector<std::pair<std::string, double>>& figures,
              const std::string& name) {
  for (const auto& [its, value] : figures)
    if (its == name) return value;
  return -1;
}

bool are_alike(const Batch& left, const Batch& right) {
  return left.index == right.index && at::equal(left.inputs, right.inputs) &&
         at::equal(left.labels, right.labels);
}

/// Draws and teaches so many batches; how many drawn samples have odd classes.
std::int64_t odd_of(AssistedSource& source, std::int64_t batches,
                    std::int64_t first = 0) {
  std::int64_t odd = 0;
  for (std::int64_t t = first; t < first + batches; ++t) {
    const Batch batch = source.batch(t);
    odd += at::remainder(batch.labels, 2).sum().item<std::int64_t>();
    source.learn(t, losses_of(batch));
  }
  return odd;
}

/// Batches of a pass have 4, 4 and 2 samples, or 4 and 4 of them.
TEST(AssistedSource, WithAcceptanceOneIsTheStreamOfAllSamples) {
  for (const bool drop_last : {false, true}) {
    SampleSource plain(ten(), in_order(drop_last));
    AssistedSource all = with({.acceptance = 1, .lag = 1}, drop_last);
    AssistedSource some = with({.acceptance = 0.3, .lag = 1}, drop_last);
    EXPECT_EQ(all.batches_per_epoch(), plain.batches_per_epoch());
    bool is_other = false;
    for (std::int64_t t = 0; t < 9; ++t) {
      const Batch expected = plain.batch(t);
      const Batch batch = all.batch(t);
      EXPECT_TRUE(are_alike(batch, expected)) << t;
      all.learn(t, losses_of(batch));
      is_other = !are_alike(some.batch(t), expected) || is_other;
    }
    EXPECT_TRUE(is_other);
  }
}

TEST(AssistedSource, BeginsInTheMiddleWhereAllSamplesWould) {
  SampleSource plain(ten(), in_order());
  AssistedSource all = with({.acceptance = 1, .lag = 1});
  EXPECT_TRUE(are_alike(all.batch(7), plain.batch(7)));
  EXPECT_TRUE(are_alike(all.batch(8), plain.batch(8)));
}

/// p0 + (1 - p0) / 2 of them are taken while every vote is 1/2.
TEST(AssistedSource, SkipsAsOftenAsItsVotesSay) {
  for (const double acceptance : {0.1, 0.6}) {
    AssistedSource source =
        with({.acceptance = acceptance, .learning_rate = 0, .lag = 1});
    double passes = 0;
    constexpr int kPasses = 300;  // of 10 samples, in 3 batches
    for (std::int64_t t = 0; t < 3 * kPasses; ++t)
      passes = figure(source.learn(t, losses_of(source.batch(t))), "passes");
    EXPECT_NEAR(kPasses / passes, acceptance + (1 - acceptance) / 2, 0.03);
  }
}

TEST(AssistedSource, PrefersWhatItHasLearnedToBeHard) {
  const AssistOptions options{.acceptance = 0.05, .learning_rate = 2, .lag = 1};
  AssistedSource taught = with(options);
  AssistOptions deaf = options;
  deaf.learning_rate = 0;
  AssistedSource untaught = with(deaf);
  odd_of(taught, 600);
  odd_of(untaught, 600);
  // Odd samples among 1000 each.
  EXPECT_LT(odd_of(taught, 300, 600), 350);
  EXPECT_NEAR(static_cast<double>(odd_of(untaught, 300, 600)), 500, 60);
}

TEST(AssistedSource, KeepsTheBatchesOfAnEpochAndCountsPasses) {
  AssistedSource some = with({.acceptance = 0.3, .lag = 1});
  AssistedSource all = with({.acceptance = 1, .lag = 1});
  EXPECT_EQ(some.batches_per_epoch(), 3);
  std::vector<std::pair<std::string, double>> said, of_all;
  for (std::int64_t t = 0; t < 6; ++t) {
    const Batch batch = some.batch(t);
    EXPECT_EQ(batch.labels.size(0), t % 3 == 2 ? 2 : 4);
    said = some.learn(t, losses_of(batch));
    of_all = all.learn(t, losses_of(all.batch(t)));
  }
  EXPECT_EQ(figure(of_all, "passes"), 2);
  EXPECT_EQ(figure(of_all, "skipped"), 0);
  EXPECT_GT(figure(said, "passes"), 2);
}

/// Batch t may depend on losses up to t - 3, and not on when they come.
TEST(AssistedSource, UsesLossesOfAFixedLag) {
  const AssistOptions options{
      .acceptance = 0.05, .learning_rate = 20, .lag = 3};
  AssistedSource at_once = with(options), late = with(options);
  AssistedSource changed = with(options);
  std::vector<Batch> batches;
  constexpr std::int64_t kChanged = 20;
  bool is_other = false;
  for (std::int64_t t = 0; t < 40; ++t) {
    if (t >= 3) {
      const Batch& old = batches.at(static_cast<std::size_t>(t - 3));
      late.learn(t - 3, losses_of(old));
    }
    batches.push_back(at_once.batch(t));
    EXPECT_TRUE(are_alike(batches.back(), late.batch(t))) << t;
    at_once.learn(t, losses_of(batches.back()));
    const Batch other = changed.batch(t);
    if (t < kChanged + 3)
      EXPECT_TRUE(are_alike(batches.back(), other)) << t;
    else
      is_other = is_other || !are_alike(batches.back(), other);
    changed.learn(t, t < kChanged ? losses_of(other) : -losses_of(other));
  }
  EXPECT_TRUE(is_other);
}

/// From the loss on that is no number, every sample is taken.
TEST(AssistedSource, GoesOnWithoutAnAssistantThatIsDead) {
  AssistedSource source = with({.acceptance = 0.1, .lag = 1});
  double skipped = 0;
  for (std::int64_t t = 0; t < 6; ++t)
    skipped += figure(source.learn(t, losses_of(source.batch(t))), "skipped");
  EXPECT_GT(skipped, 0);
  source.learn(6, at::full_like(losses_of(source.batch(6)),
                                std::numeric_limits<double>::quiet_NaN()));
  for (std::int64_t t = 7; t < 20; ++t)
    EXPECT_EQ(figure(source.learn(t, losses_of(source.batch(t))), "skipped"), 0)
        << t;
}

TEST(AssistedSource, GoesOnFromItsState) {
  const AssistOptions options{
      .acceptance = 0.05, .learning_rate = 20, .lag = 2};
  AssistedSource whole = with(options);
  odd_of(whole, 20);
  const Batch in_flight = whole.batch(20);
  AssistedSource resumed = with(options), anew = with(options);
  resumed.restore(whole.state(), "test");
  anew.restore({}, "test");
  bool is_other = false;
  for (AssistedSource* each : {&whole, &resumed})
    each->learn(20, losses_of(in_flight));
  for (std::int64_t t = 21; t < 40; ++t) {
    const Batch batch = whole.batch(t);
    EXPECT_TRUE(are_alike(batch, resumed.batch(t))) << t;
    const Batch other = anew.batch(t);
    is_other = is_other || !are_alike(batch, other);
    whole.learn(t, losses_of(batch));
    resumed.learn(t, losses_of(batch));
    anew.learn(t, losses_of(other));
  }
  EXPECT_TRUE(is_other);
}

}  // namespace sluice::data_assisted_source_test
