#include "lib/coordinator.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// The first multiple of `every` after `turn`, or `end` when there is none.
std::int64_t next_multiple(std::int64_t turn, std::int64_t every,
                           std::int64_t end) {
  if (every <= 0) return end;
  return std::min(end, (turn / every + 1) * every);
}

bool is_multiple(std::int64_t turn, std::int64_t every) {
  return every > 0 && turn % every == 0;
}

}  // namespace

Coordinator::Coordinator(RunLength length, int blocks,
                         std::shared_ptr<Sink> sink,
                         std::function<void(std::int64_t)> on_checkpoint)
    : length_(length),
      blocks_(static_cast<std::size_t>(blocks)),
      sink_(std::move(sink)),
      on_checkpoint_(std::move(on_checkpoint)) {}

Grant Coordinator::decide() {
  if (decided_.empty()) return {.checkpoint = length_.initial_checkpoint};
  const Grant& before = decided_.back();
  Grant grant;
  grant.first_turn = before.end_turn;
  const bool stop = stop_.load();
  if (stop) stopped_early_ = grant.first_turn < length_.turns;
  // A turn's checkpoint is made once: blocks that run ahead would mix their
  // files into the one that is being finished. So a stop right after one takes
  // a turn more.
  grant.end_turn =
      stop ? grant.first_turn + (before.checkpoint ? 1 : 0)
           : std::min({grant.first_turn + length_.grant_turns,
                       next_multiple(grant.first_turn, length_.evaluate_every,
                                     length_.turns),
                       next_multiple(grant.first_turn, length_.checkpoint_every,
                                     length_.turns)});
  grant.finish = stop || grant.end_turn == length_.turns;
  grant.drain = grant.finish && length_.drain;
  if (grant.finish || is_multiple(grant.end_turn, length_.evaluate_every))
    grant.evaluation_batches = length_.evaluation_batches;
  grant.checkpoint =
      grant.finish || is_multiple(grant.end_turn, length_.checkpoint_every);
  const bool is_saved = before.checkpoint && grant.end_turn == before.end_turn;
  if (is_saved) grant.checkpoint = false;  // a run of 0 turns
  return grant;
}

std::optional<Grant> Coordinator::grant(std::size_t n) {
  const std::lock_guard lock(mutex_);
  SLUICE_CHECK(n <= decided_.size(), "grant {} asked for, {} were decided", n,
               decided_.size());
  if (n == decided_.size()) {
    if (!decided_.empty() && decided_.back().finish) return std::nullopt;
    decided_.push_back(decide());
    reached_by_.push_back(0);
  }
  return decided_[n];
}

void Coordinator::reached(int block, std::size_t n) {
  const std::lock_guard lock(mutex_);
  SLUICE_CHECK(n < decided_.size(), "block {} reached grant {} of {}", block, n,
               decided_.size());
  if (++reached_by_[n] < blocks_) return;
  last_reached_ = std::chrono::steady_clock::now();
  if (n == 0) all_there_ = last_reached_;
  if (decided_[n].checkpoint && on_checkpoint_)
    on_checkpoint_(decided_[n].end_turn);
}

double Coordinator::seconds() {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(last_reached_ - all_there_).count();
}

std::int64_t Coordinator::turns_granted() {
  const std::lock_guard lock(mutex_);
  return decided_.empty() ? 0 : decided_.back().end_turn;
}

void Coordinator::write(const Record& record) {
  const std::lock_guard lock(mutex_);
  if (sink_) sink_->write(record);
}

}  // namespace sluice
