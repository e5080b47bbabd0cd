#include "experiments/data/order/prefetch.h"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// The thread makes the batches from `next_` on and puts them into `ready_`.
/// The inner source is used by it while `making_` is true, and by the caller
/// only while it is parked.
class PrefetchedSource final : public Source {
 public:
  PrefetchedSource(std::unique_ptr<Source> inner, std::int64_t depth,
                   std::int64_t stride)
      : inner_(std::move(inner)),
        per_epoch_(inner_->batches_per_epoch()),
        depth_(static_cast<std::size_t>(depth)),
        stride_(stride) {}

  ~PrefetchedSource() override {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Batch batch(std::int64_t t) override {
    std::unique_lock lock(mutex_);
    if (t != expected_) start_at(t);
    expected_ = t + stride_;
    wanted_ = true;
    // Started by the first batch, because only that says where to begin.
    if (!thread_.joinable()) thread_ = std::thread([this] { make_batches(); });
    changed_.notify_all();
    changed_.wait(lock, [this] { return !ready_.empty(); });
    wanted_ = false;
    std::optional<Batch> made = std::move(ready_.front());
    ready_.pop_front();
    if (!made) {
      // No exception crosses threads: the thread is parked, for want of the
      // mutex, and the caller sees for itself what is wrong with this batch.
      start_at(t + stride_);
      made = inner_->batch(t);
    }
    changed_.notify_all();
    return std::move(*made);
  }

  std::int64_t batches_per_epoch() const override { return per_epoch_; }

 private:
  void start_at(std::int64_t t) {
    ready_.clear();
    next_ = t;
    failed_ = false;
    ++course_;
  }

  bool has_work() const {
    return !failed_ && ready_.size() < depth_ + (wanted_ ? 1 : 0);
  }

  void make_batches() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopped_ || has_work(); });
      if (stopped_) return;
      const std::int64_t t = std::exchange(next_, next_ + stride_);
      const std::uint64_t course = course_;
      lock.unlock();
      std::optional<Batch> made;
      try {
        made = inner_->batch(t);
      } catch (const std::exception&) {
        // `made` stays empty
      }
      lock.lock();
      if (course != course_) continue;  // the caller went somewhere else
      failed_ = !made;
      ready_.push_back(std::move(made));
      changed_.notify_all();
    }
  }

  const std::unique_ptr<Source> inner_;
  const std::int64_t per_epoch_;
  const std::size_t depth_;
  const std::int64_t stride_;
  std::thread thread_;
  std::int64_t expected_ = -1;  // the caller's own

  std::mutex mutex_;
  std::condition_variable changed_;
  // The members below are guarded by mutex_.
  std::deque<std::optional<Batch>> ready_;  // empty: it could not be made
  std::int64_t next_ = 0;
  std::uint64_t course_ = 0;
  bool wanted_ = false;
  bool failed_ = false;
  bool stopped_ = false;
};

}  // namespace

std::unique_ptr<Source> prefetched(std::unique_ptr<Source> inner,
                                   std::int64_t depth, std::int64_t stride) {
  SLUICE_CHECK(depth >= 0 && stride > 0, "depth {}, stride {}", depth, stride);
  if (depth == 0) return inner;
  return std::make_unique<PrefetchedSource>(std::move(inner), depth, stride);
}

}  // namespace sluice
