#include "experiments/data/order/prefetch.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_prefetch_test {

/// What several threads know of a source.
struct Log {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::int64_t> asked;
  std::set<std::thread::id> threads;
  std::atomic<int> inside = 0;
  std::atomic<bool> shared = false;  ///< two threads were in it at once

  void wait_for(std::size_t batches) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return asked.size() >= batches; });
  }
};

/// Batch t holds the number t; those of `broken` can't be made.
class Numbers final : public Source {
 public:
  explicit Numbers(std::shared_ptr<Log> log, std::set<std::int64_t> broken = {})
      : log_(std::move(log)), broken_(std::move(broken)) {}

  Batch batch(std::int64_t t) override {
    if (log_->inside++ != 0) log_->shared = true;
    {
      const std::lock_guard lock(log_->mutex);
      log_->asked.push_back(t);
      log_->threads.insert(std::this_thread::get_id());
    }
    log_->changed.notify_all();
    --log_->inside;
    if (broken_.contains(t)) throw UserError("batch {} is broken", t);
    return {.index = t, .inputs = at::full({3}, t), .labels = at::empty({0})};
  }
  std::int64_t batches_per_epoch() const override { return 10; }

 private:
  std::shared_ptr<Log> log_;
  std::set<std::int64_t> broken_;
};

class Prefetch : public testing::Test {
 protected:
  std::unique_ptr<Source> source(std::int64_t depth,
                                 std::set<std::int64_t> broken = {}) const {
    return prefetched(std::make_unique<Numbers>(log, std::move(broken)), depth);
  }
  static std::string text_of(Source& source, std::int64_t t) {
    const Batch batch = source.batch(t);
    EXPECT_EQ(batch.index, t);
    return std::to_string(batch.inputs[1].item<int>());
  }

  std::shared_ptr<Log> log = std::make_shared<Log>();
};

TEST_F(Prefetch, GivesTheBatchesThatAreAskedFor) {
  const auto source = this->source(2);
  for (std::int64_t t = 0; t < 100; ++t)
    EXPECT_EQ(text_of(*source, t), std::to_string(t));
  EXPECT_FALSE(log->shared);
}

TEST_F(Prefetch, MakesTheNextBatchesBeforeTheyAreAskedForAndNoMore) {
  {
    const auto source = this->source(3);
    source->batch(5);
    log->wait_for(4);  // hangs when they are not made
  }
  EXPECT_THAT(log->asked, testing::ElementsAre(5, 6, 7, 8));
}

TEST_F(Prefetch, MakesThemInAThreadOfItsOwn) {
  const auto source = this->source(1);
  source->batch(0);
  const std::lock_guard lock(log->mutex);
  EXPECT_FALSE(log->threads.contains(std::this_thread::get_id()));
}

TEST_F(Prefetch, JumpsToAnyBatch) {
  const auto source = this->source(2);
  for (const std::int64_t t : {70, 71, 3, 4, 4, 0, 1'000'000'000, 2, 1})
    EXPECT_EQ(text_of(*source, t), std::to_string(t));
  EXPECT_FALSE(log->shared);
}

TEST_F(Prefetch, AnExceptionReachesTheCallerAtItsBatch) {
  const auto source = this->source(3, {2});
  EXPECT_EQ(text_of(*source, 0), "0");
  log->wait_for(3);  // batch 2 has failed by now, or is about to
  EXPECT_EQ(text_of(*source, 1), "1");
  EXPECT_EQ(error_of([&] { source->batch(2); }), "batch 2 is broken");
  EXPECT_FALSE(log->shared);
}

TEST_F(Prefetch, GoesOnAfterAnException) {
  const auto source = this->source(2, {1, 2});
  EXPECT_EQ(error_of([&] { source->batch(1); }), "batch 1 is broken");
  EXPECT_EQ(error_of([&] { source->batch(2); }), "batch 2 is broken");
  EXPECT_EQ(text_of(*source, 3), "3");
  EXPECT_EQ(error_of([&] { source->batch(2); }), "batch 2 is broken");
  EXPECT_EQ(text_of(*source, 4), "4");
}

TEST_F(Prefetch, AJumpForgetsAFailureThatNobodyAskedFor) {
  const auto source = this->source(2, {1});
  EXPECT_EQ(text_of(*source, 0), "0");
  log->wait_for(2);
  EXPECT_EQ(text_of(*source, 5), "5");
  EXPECT_EQ(text_of(*source, 6), "6");
}

TEST_F(Prefetch, EndsUnusedAndWithBatchesThatNobodyTook) {
  source(2);
  const auto source = this->source(4, {2});
  EXPECT_NO_THROW(source->batch(0));
}

TEST_F(Prefetch, PrefetchOfDepthZeroIsTheSourceItself) {
  auto inner = std::make_unique<Numbers>(log);
  const Source* plain = inner.get();
  EXPECT_EQ(prefetched(std::move(inner), 0).get(), plain);
}

TEST_F(Prefetch, KnowsTheLengthOfAnEpoch) {
  EXPECT_EQ(source(2)->batches_per_epoch(), 10);
}

}  // namespace sluice::data_prefetch_test
