#include "experiments/data/change/free_assisted_source.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/data/change/assisted_source.h"
#include "experiments/data/order/sample_source.h"
#include "experiments/data/sets/images.h"
#include "lib/base/error.h"

namespace sluice::free_assisted_source_test {

constexpr std::int64_t kSize = 10;
constexpr std::int64_t kBatch = 4;
constexpr AssistOptions kQuick{.acceptance = 0.05, .learning_rate = 20};

/// Ten images of [2, 1, 2], each with a class of its own. May be kept from
/// being read, or have nothing to be read.
class GuardedSamples final : public Samples {
 public:
  GuardedSamples() {
    Images images;
    for (std::int64_t i = 0; i < kSize; ++i) {
      images.labels.push_back(static_cast<std::uint8_t>(i));
      for (std::int64_t p = 0; p < 4; ++p)
        images.pixels.push_back(static_cast<std::uint8_t>(4 * i + p));
    }
    images_ = image_samples({.channels = 2,
                             .height = 1,
                             .width = 2,
                             .classes = kSize,
                             .mean = {0.5, 0.25},
                             .std = {0.5, 0.125}},
                            {}, std::move(images));
  }
  std::int64_t size() const override { return kSize; }
  std::int64_t position(std::int64_t index, EpochKey) const override {
    return index;
  }
  Batch batch(std::span<const std::int64_t> indices,
              EpochKey key) const override {
    while (is_held) std::this_thread::yield();
    if (is_lost) throw UserError("the disk is gone");
    return images_->batch(indices, key);
  }

  std::atomic<bool> is_held = false;
  std::atomic<bool> is_lost = false;

 private:
  std::shared_ptr<const Samples> images_;
};

AssistedDraws draws_of(const std::shared_ptr<const Samples>& samples,
                       const AssistOptions& options, std::int64_t stride = 1) {
  return AssistedDraws(samples, {.shape = {2, 1, 2}, .classes = kSize},
                       {.batch_size = kBatch, .seed = 3, .sample_ids = true},
                       options, stride);
}

std::unique_ptr<FreeAssistedSource> with(const AssistOptions& options,
                                         FreeDraws when,
                                         std::int64_t stride = 1) {
  return std::make_unique<FreeAssistedSource>(
      draws_of(std::make_shared<GuardedSamples>(), options, stride),
      std::move(when));
}

/// Samples of even classes are hard.
at::Tensor losses_of(const Batch& batch) {
  return at::remainder(batch.labels + 1, 2).to(at::kDouble) +
         0.01 * batch.labels.to(at::kDouble);
}

bool are_alike(const Batch& left, const Batch& right) {
  return left.index == right.index && at::equal(left.inputs, right.inputs) &&
         at::equal(left.labels, right.labels);
}

/// The first `count` batches; the losses of each come `age` batches later.
std::vector<Batch> batches_of(Source& source, std::int64_t count,
                              std::int64_t age = 0) {
  std::vector<Batch> all;
  for (std::int64_t t = 0; t < count; ++t) {
    all.push_back(source.batch(t));
    if (t < age) continue;
    const Batch& old = all.at(static_cast<std::size_t>(t - age));
    source.learn(old.index, losses_of(old));
  }
  return all;
}

bool are_alike(const std::vector<Batch>& left,
               const std::vector<Batch>& right) {
  for (std::size_t i = 0; i < left.size(); ++i)
    if (!are_alike(left[i], right.at(i))) return false;
  return true;
}

std::shared_ptr<const RecordedLessons> record_of(
    const std::vector<Batch>& batches) {
  auto lessons = std::make_shared<RecordedLessons>();
  for (const Batch& batch : batches)
    if (!batch.learned.empty()) (*lessons)[batch.index] = batch.learned;
  return lessons;
}

TEST(FreeAssistedSource, DrawsByTheLossesThatHaveCome) {
  for (const std::int64_t ahead : {0, 2}) {
    const auto lockstep = [&](std::int64_t lag) {
      AssistedSource source(
          draws_of(std::make_shared<GuardedSamples>(), kQuick), lag);
      return batches_of(source, 40);
    };
    const std::vector<Batch> free =
        batches_of(*with(kQuick, {.ahead = ahead}), 40);
    EXPECT_TRUE(are_alike(free, lockstep(ahead + 1))) << ahead;
    EXPECT_FALSE(are_alike(free, lockstep(ahead + 2))) << ahead;
  }
}

/// Which losses a thread finds is left to chance; what it did with them isn't.
TEST(FreeAssistedSource, DrawsTheSameByItsRecord) {
  const std::vector<Batch> drawn =
      batches_of(*with(kQuick, {.ahead = 3, .in_thread = true}), 60, 5);
  const auto record = record_of(drawn);
  EXPECT_TRUE(
      are_alike(drawn, batches_of(*with(kQuick, {.recorded = record}), 60, 5)));
  EXPECT_TRUE(
      are_alike(drawn, batches_of(*with(kQuick, {.recorded = record}), 60)))
      << "losses may come earlier";
  const auto nothing = std::make_shared<RecordedLessons>();
  EXPECT_FALSE(are_alike(
      drawn, batches_of(*with(kQuick, {.recorded = nothing}), 60, 5)));
}

TEST(FreeAssistedSource, RefusesARecordOfLossesThatHaveNotCome) {
  const auto record =
      std::make_shared<RecordedLessons>(RecordedLessons{{2, {1}}});
  const auto source = with(kQuick, {.recorded = record});
  EXPECT_NO_THROW(batches_of(*source, 2, 5));
  EXPECT_THROW(source->batch(2), UserError);
}

/// The batches don't wait for losses: none ever come.
TEST(FreeAssistedSource, NeverBlocksTheNetwork) {
  const auto source = with(kQuick, {.ahead = 2, .in_thread = true});
  EXPECT_EQ(batches_of(*source, 50, 100).size(), 50U);
}

/// The losses are taken while the thread is at a batch that it can't read.
TEST(FreeAssistedSource, IsNeverWaitedForByTheNetwork) {
  const auto samples = std::make_shared<GuardedSamples>();
  constexpr std::int64_t kAlwaysBusy = 100000;
  FreeAssistedSource source(draws_of(samples, kQuick),
                            {.ahead = kAlwaysBusy, .in_thread = true});
  const Batch first = source.batch(0);
  samples->is_held = true;
  EXPECT_EQ(source.learn(0, losses_of(first)).size(), 2U);
  samples->is_held = false;
  EXPECT_EQ(source.batch(1).index, 1);
}

TEST(FreeAssistedSource, ThrowsWhatCannotBeReadAtItsBatch) {
  for (const bool in_thread : {false, true}) {
    const auto samples = std::make_shared<GuardedSamples>();
    FreeAssistedSource source(draws_of(samples, kQuick),
                              {.ahead = 2, .in_thread = in_thread});
    std::vector<Batch> all;
    for (std::int64_t t = 0; t < 3; ++t) all.push_back(source.batch(t));
    samples->is_lost = true;
    std::int64_t t = 3;
    EXPECT_THROW(
        {
          for (; t < 10; ++t) all.push_back(source.batch(t));
        },
        UserError);
    EXPECT_LE(t, 5) << "two are there";
    samples->is_lost = false;
    for (; t < 10; ++t) all.push_back(source.batch(t));
    EXPECT_TRUE(are_alike(all, batches_of(*with(kQuick, {}), 10, 100)));
  }
}

/// Nothing that was drawn ahead is lost, and nothing is drawn twice.
TEST(FreeAssistedSource, GoesOnFromItsStateWithWhatItHadDrawn) {
  constexpr AssistOptions kAll{.acceptance = 1};
  SampleSource plain(std::make_shared<GuardedSamples>(),
                     {.batch_size = kBatch, .seed = 3});
  for (const bool in_thread : {false, true}) {
    const FreeDraws when{.ahead = 3, .in_thread = in_thread};
    const auto whole = with(kAll, when);
    batches_of(*whole, 7, 2);
    const auto resumed = with(kAll, when);
    resumed->restore(whole->state(), "test");
    for (std::int64_t t = 7; t < 20; ++t)
      EXPECT_TRUE(are_alike(resumed->batch(t), plain.batch(t))) << t;
  }
}

/// What it had learned, and what lay in the queue, is there again.
TEST(FreeAssistedSource, GoesOnFromItsStateAsIfNothingHadBeen) {
  const FreeDraws when{.ahead = 2};
  const auto whole = with(kQuick, when);
  const std::vector<Batch> before = batches_of(*whole, 21, 3);
  const auto resumed = with(kQuick, when), anew = with(kQuick, when);
  resumed->restore(whole->state(), "test");
  anew->restore({}, "test");
  bool is_other = false;
  std::deque<Batch> open(before.end() - 3, before.end());
  for (std::int64_t t = 21; t < 60; ++t) {
    open.push_back(whole->batch(t));
    const Batch again = resumed->batch(t);
    EXPECT_TRUE(are_alike(open.back(), again)) << t;
    EXPECT_EQ(open.back().learned, again.learned) << t;
    is_other = is_other || !are_alike(open.back(), anew->batch(t));
    for (const auto& source : {whole.get(), resumed.get()})
      source->learn(open.front().index, losses_of(open.front()));
    open.pop_front();
  }
  EXPECT_TRUE(is_other);
}

/// A batch that was drawn and could not be read is drawn no other way after a
/// checkpoint, whatever has come since.
TEST(FreeAssistedSource, GoesOnFromItsStateWithABatchThatCouldNotBeRead) {
  const auto samples = std::make_shared<GuardedSamples>();
  FreeAssistedSource source(draws_of(samples, kQuick), {.ahead = 2});
  std::vector<Batch> all;
  for (std::int64_t t = 0; t < 3; ++t) all.push_back(source.batch(t));
  samples->is_lost = true;
  all.push_back(source.batch(3));
  for (const Batch& batch : all) source.learn(batch.index, losses_of(batch));
  const auto resumed = with(kQuick, {.ahead = 2});
  resumed->restore(source.state(), "test");
  samples->is_lost = false;
  for (std::int64_t t = 4; t < 12; ++t) {
    const Batch batch = source.batch(t);
    const Batch again = resumed->batch(t);
    EXPECT_EQ(again.index, t);
    EXPECT_TRUE(are_alike(batch, again)) << t;
    EXPECT_EQ(batch.learned, again.learned) << t;
  }
  // Lessons belong to the batch that is drawn after them.
  const auto replayed = with(kQuick, {.recorded = record_of(all)});
  for (const Batch& batch : all)
    EXPECT_TRUE(are_alike(replayed->batch(batch.index), batch));
}

TEST(FreeAssistedSource, DropsWhatWasDrawnAheadWhereTheShareIsAnother) {
  const auto alone = with({.acceptance = 1}, {.ahead = 2});
  batches_of(*alone, 4);
  const auto one_of_two = with({.acceptance = 1}, {.ahead = 2}, 2);
  one_of_two->restore(alone->state(), "test");
  for (std::int64_t t = 4; t < 20; t += 2)
    EXPECT_EQ(one_of_two->batch(t).index, t);
}

/// A pass has three batches: replica 1 has the first and the third of the first
/// pass, and replica 2 the second.
TEST(FreeAssistedSource, DrawsFromTheShareOfAReplica) {
  SampleSource plain(std::make_shared<GuardedSamples>(),
                     {.batch_size = kBatch, .seed = 3, .sample_ids = true});
  std::set<std::int64_t> of_second;
  const at::Tensor ids = plain.batch(1).ids;
  for (std::int64_t i = 0; i < ids.size(0); ++i)
    of_second.insert(ids[i].item<std::int64_t>());
  const auto all = with({.acceptance = 1}, {.ahead = 2}, 2);
  const auto some = with({.acceptance = 0.5}, {.ahead = 2}, 2);
  bool skips = false;
  for (std::int64_t t = 0; t < 10; t += 2) {
    EXPECT_TRUE(are_alike(all->batch(t), plain.batch(t))) << t;
    const Batch drawn = some->batch(t);
    skips = skips || !are_alike(drawn, plain.batch(t));
    for (std::int64_t i = 0; t == 0 && i < drawn.ids.size(0); ++i)
      EXPECT_FALSE(of_second.contains(drawn.ids[i].item<std::int64_t>()));
  }
  EXPECT_TRUE(skips);
}

}  // namespace sluice::free_assisted_source_test
