#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "experiments/data/change/assisted_draws.h"
#include "lib/blocks/source.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// When a FreeAssistedSource draws.
struct FreeDraws {
  /// Batches that are drawn ahead of the one that is asked for.
  std::int64_t ahead = 0;
  /// Whether a thread of the source's own draws ahead. Otherwise the caller
  /// does, when it has been given a batch.
  bool in_thread = false;
  /// Set: draws by what was learned then, when a batch is asked for.
  std::shared_ptr<const RecordedLessons> recorded = nullptr;
};

/// The batches of a training split, of which an assistant skips samples by the
/// losses that have come when it draws, of any age: AutoAssist as published.
/// learn() puts losses into a queue, and waits for nothing but the lock of that
/// queue. A batch is drawn without waiting for losses: first the assistant
/// learns from all that lie in the queue, in the order in which they came.
/// Batch::learned of a batch says from which, so that its samples can be found
/// again. batch(), learn(), state(), restore(): used by one thread.
///
/// What can't be read is thrown at the batch that it belongs to. The destructor
/// waits for the batch that is being made.
class FreeAssistedSource final : public Source {
 public:
  FreeAssistedSource(AssistedDraws draws, FreeDraws when);
  ~FreeAssistedSource() override;

  /// A t other than the one that comes next begins where the stream of all
  /// samples has it; what was drawn ahead is dropped.
  Batch batch(std::int64_t t) override;
  std::int64_t batches_per_epoch() const override { return per_epoch_; }
  /// The figures are those of AssistedDraws::figures_of().
  std::vector<std::pair<std::string, double>> learn(
      std::int64_t t, const at::Tensor& losses) override;
  /// The assistant, the batches that are drawn ahead, those without losses and
  /// the queue: tensors named "assistant.free.*".
  NamedTensors state() const override;
  void restore(const NamedTensors& state, std::string_view source) override;

 private:
  /// A batch whose losses have come.
  struct Lesson {
    std::int64_t batch = 0;
    DrawnBatch drawn = {};
    at::Tensor losses = {};
  };
  using Lock = std::unique_lock<std::mutex>;

  std::int64_t due() const;
  void start_at(std::int64_t t, Lock& lock);
  void wait_for_maker(Lock& lock) const;
  bool has_work() const;
  void make_batches();
  void make_next(Lock& lock);
  void make_next_if_it_can(Lock& lock);
  void take_lessons();
  std::pair<DrawnBatch, Batch> made(std::int64_t t);

  const FreeDraws when_;
  const std::int64_t per_epoch_;
  const std::int64_t stride_;
  std::thread thread_;

  // The members below belong to whoever set making_.
  AssistedDraws draws_;
  std::deque<Lesson> lessons_;         // taken off the queue
  std::vector<std::int64_t> learned_;  // since the last draw
  // The batch that was drawn and couldn't be read.
  std::optional<std::pair<std::int64_t, DrawnBatch>> unmade_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // The members below are guarded by mutex_.
  std::deque<Batch> ready_;
  std::map<std::int64_t, DrawnBatch> drawn_;  // without losses, by batch
  std::deque<Lesson> queue_;
  std::int64_t next_ = 0;  // batch to be made
  bool making_ = false;
  bool wanted_ = false;
  bool failed_ = false;
  bool stopped_ = false;
};

}  // namespace sluice
