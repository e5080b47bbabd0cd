#include "experiments/data/change/free_assisted_source.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/checkpoints/saved_state.h"

namespace sluice {
namespace {

constexpr const char* kFreeState = "assistant.free";
constexpr const char* kFreeDrawn = "assistant.free.drawn";
constexpr const char* kFreeAhead = "assistant.free.ahead";
constexpr const char* kFreeQueue = "assistant.free.queue";
constexpr const char* kFreeLearned = "assistant.free.learned";
constexpr const char* kFreeUnmade = "assistant.free.unmade";

at::Tensor numbers_in(const std::vector<std::int64_t>& numbers) {
  return at::tensor(numbers, at::kLong);
}

std::vector<std::int64_t> numbers_of(const at::Tensor& tensor) {
  const at::Tensor numbers = tensor.contiguous();
  const auto* first = numbers.const_data_ptr<std::int64_t>();
  return {first, first + numbers.numel()};
}

}  // namespace

FreeAssistedSource::FreeAssistedSource(AssistedDraws draws, FreeDraws when)
    : when_(std::move(when)),
      per_epoch_(draws.batches_per_epoch()),
      stride_(draws.stride()),
      draws_(std::move(draws)) {
  SLUICE_CHECK(!when_.recorded || (when_.ahead == 0 && !when_.in_thread),
               "a record says what was learned before each batch");
}

FreeAssistedSource::~FreeAssistedSource() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch FreeAssistedSource::batch(std::int64_t t) {
  Lock lock(mutex_);
  if (t != due()) start_at(t, lock);
  if (when_.in_thread) {
    wanted_ = true;
    // Started by the first batch, because only that says where to begin.
    if (!thread_.joinable()) thread_ = std::thread([this] { make_batches(); });
    changed_.notify_all();
    changed_.wait(lock, [this] { return !ready_.empty() || failed_; });
    wanted_ = false;
  }
  // No exception crosses threads: this one sees for itself what is wrong.
  if (ready_.empty()) make_next(lock);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  while (!when_.in_thread && std::ssize(ready_) < when_.ahead && !failed_)
    make_next_if_it_can(lock);
  changed_.notify_all();
  return batch;
}

/// The batch that goes on where the last one ended.
std::int64_t FreeAssistedSource::due() const {
  return ready_.empty() ? next_ : ready_.front().index;
}

void FreeAssistedSource::start_at(std::int64_t t, Lock& lock) {
  wait_for_maker(lock);
  for (const Batch& dropped : ready_) drawn_.erase(dropped.index);
  ready_.clear();
  next_ = t;
  failed_ = false;
}

void FreeAssistedSource::wait_for_maker(Lock& lock) const {
  changed_.wait(lock, [this] { return !making_; });
}

bool FreeAssistedSource::has_work() const {
  return !failed_ && std::ssize(ready_) < when_.ahead + (wanted_ ? 1 : 0);
}

void FreeAssistedSource::make_batches() {
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || has_work(); });
    if (stopped_) return;
    make_next_if_it_can(lock);
    changed_.notify_all();
  }
}

void FreeAssistedSource::make_next_if_it_can(Lock& lock) {
  try {
    make_next(lock);
  } catch (const std::exception&) {
    failed_ = true;
  }
}

/// Releases the lock while it draws.
void FreeAssistedSource::make_next(Lock& lock) {
  take_lessons();
  making_ = true;
  const std::int64_t t = next_;
  lock.unlock();
  try {
    auto [drawn, batch] = made(t);
    lock.lock();
    drawn_[t] = std::move(drawn);
    ready_.push_back(std::move(batch));
    next_ = t + stride_;
    making_ = failed_ = false;
  } catch (...) {
    lock.lock();
    making_ = false;
    throw;
  }
}

/// Takes what the assistant learns from before the next draw off the queue.
void FreeAssistedSource::take_lessons() {
  if (!when_.recorded) {
    std::move(queue_.begin(), queue_.end(), std::back_inserter(lessons_));
    queue_.clear();
    return;
  }
  const auto found = when_.recorded->find(next_);
  if (found == when_.recorded->end()) return;
  for (const std::int64_t batch : found->second) {
    const auto lesson =
        std::find_if(queue_.begin(), queue_.end(),
                     [&](const Lesson& one) { return one.batch == batch; });
    if (lesson == queue_.end())
      throw UserError(
          "the record says that batch {} was drawn after the losses of batch "
          "{}, which have not come: metrics.jsonl is not of this run",
          next_, batch);
    lessons_.push_back(std::move(*lesson));
    queue_.erase(lesson);
  }
}

std::pair<DrawnBatch, Batch> FreeAssistedSource::made(std::int64_t t) {
  if (!unmade_ || unmade_->first != t) {
    for (; !lessons_.empty(); lessons_.pop_front()) {
      draws_.learn(lessons_.front().drawn, lessons_.front().losses);
      learned_.push_back(lessons_.front().batch);
    }
    unmade_ = {t, draws_.draw(t)};
  }
  Batch batch = draws_.make(t, unmade_->second);
  batch.learned = std::exchange(learned_, {});
  return {std::exchange(unmade_, {})->second, std::move(batch)};
}

std::vector<std::pair<std::string, double>> FreeAssistedSource::learn(
    std::int64_t t, const at::Tensor& losses) {
  const std::lock_guard lock(mutex_);
  const auto found = drawn_.find(t);
  if (found == drawn_.end()) return {};
  Lesson lesson{.batch = t,
                .drawn = std::move(found->second),
                .losses = losses.clone()};  // of a message's memory
  drawn_.erase(found);
  SLUICE_CHECK(losses.numel() == std::ssize(lesson.drawn.indices),
               "{} losses of the {} samples of batch {}", losses.numel(),
               lesson.drawn.indices.size(), t);
  auto figures = draws_.figures_of(lesson.drawn);
  queue_.push_back(std::move(lesson));
  return figures;
}

NamedTensors FreeAssistedSource::state() const {
  Lock lock(mutex_);
  wait_for_maker(lock);
  NamedTensors all;
  draws_.save(kFreeState, all);
  save_number(next_, fmt::format("{}.to_make", kFreeState), all);
  save_list({numbers_in(learned_)}, kFreeLearned, all);
  if (unmade_) {
    unmade_->second.save(kFreeUnmade, {}, all);
    save_number(unmade_->first, fmt::format("{}.batch", kFreeUnmade), all);
  }
  for (const auto& [batch, drawn] : drawn_)
    drawn.save(fmt::format("{}.{}", kFreeDrawn, batch), {}, all);
  for (const Batch& batch : ready_)
    save_list({numbers_in(batch.learned)},
              fmt::format("{}.{}", kFreeAhead, batch.index), all);
  std::int64_t place = 0;
  for (const std::deque<Lesson>* lessons : {&lessons_, &queue_})
    for (const Lesson& lesson : *lessons) {
      const std::string name = fmt::format("{}.{}", kFreeQueue, place++);
      lesson.drawn.save(name, lesson.losses, all);
      save_number(lesson.batch, name + ".batch", all);
    }
  return all;
}

void FreeAssistedSource::restore(const NamedTensors& state,
                                 std::string_view source) {
  const SavedState saved(state, source);
  if (!saved.has(fmt::format("{}.next", kFreeState))) return;  // had none
  Lock lock(mutex_);
  wait_for_maker(lock);
  draws_.restore(kFreeState, saved);
  next_ = saved.number(fmt::format("{}.to_make", kFreeState));
  learned_ = numbers_of(saved.list(kFreeLearned).at(0));
  if (saved.has(fmt::format("{}.batch", kFreeUnmade)))
    unmade_ = {saved.number(fmt::format("{}.batch", kFreeUnmade)),
               DrawnBatch::restored(kFreeUnmade, saved).first};
  for (const std::int64_t batch : saved.numbers_below(kFreeDrawn))
    drawn_[batch] =
        DrawnBatch::restored(fmt::format("{}.{}", kFreeDrawn, batch), saved)
            .first;
  for (const std::int64_t batch : saved.numbers_below(kFreeAhead)) {
    const auto drawn = drawn_.find(batch);
    if (drawn == drawn_.end())
      throw UserError("{}: has no samples of batch {}, which was drawn ahead",
                      source, batch);
    ready_.push_back(draws_.make(batch, drawn->second));
    ready_.back().learned =
        numbers_of(saved.list(fmt::format("{}.{}", kFreeAhead, batch)).at(0));
  }
  for (const std::int64_t place : saved.numbers_below(kFreeQueue)) {
    const std::string name = fmt::format("{}.{}", kFreeQueue, place);
    auto [drawn, losses] = DrawnBatch::restored(name, saved);
    queue_.push_back(
        {saved.number(name + ".batch"), std::move(drawn), std::move(losses)});
  }
}

}  // namespace sluice
