#include "lib/engines/coordinator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/error.h"

namespace sluice {

Coordinator::Coordinator(RunLength length, int blocks,
                         std::shared_ptr<Sink> sink,
                         std::function<void(std::int64_t)> on_checkpoint)
    : length_(std::move(length)),
      blocks_(static_cast<std::size_t>(blocks)),
      sink_(std::move(sink)),
      on_checkpoint_(std::move(on_checkpoint)),
      early_stop_(length_.early_stop),
      phase_(length_.first_phase) {}

const Switch* Coordinator::next_switch() const {
  const auto next = static_cast<std::size_t>(phase_);
  return next < length_.switches.size() ? &length_.switches[next] : nullptr;
}

Barrier Coordinator::barrier() const {
  const auto now = static_cast<std::size_t>(phase_);
  return now < length_.barriers.size() ? length_.barriers[now] : Barrier::none;
}

Grant Coordinator::next_turns(const Grant& before) const {
  if (before.part == TurnPart::play) return rest_of(before);
  Grant grant;
  grant.first_turn = before.end_turn;
  grant.first_batch = before.first_batch;
  grant.phase = phase_;
  const Switch* next = next_switch();
  const std::int64_t switch_turn = next && !next->on_measure()
                                       ? std::max(next->turn, grant.first_turn)
                                       : length_.turns;
  const bool has_barrier = barrier() != Barrier::none;
  grant.end_turn = std::min(
      {grant.first_turn + (has_barrier ? 1 : length_.grant_turns),
       length_.evaluate_every.next_after(grant.first_turn, length_.turns),
       length_.checkpoint_every.next_after(grant.first_turn, length_.turns),
       switch_turn});
  const bool has_turns = grant.end_turn > grant.first_turn;
  if (barrier() == Barrier::play_and_replay && has_turns)
    grant.part = TurnPart::play;
  else
    decide_end(grant);
  return grant;
}

Grant Coordinator::rest_of(const Grant& play) const {
  Grant grant = play;
  grant.part = TurnPart::rest;
  decide_end(grant);
  return grant;
}

/// Decides what follows the turns of a grant.
void Coordinator::decide_end(Grant& grant) const {
  grant.finish = grant.end_turn >= length_.turns;
  if (grant.finish || length_.evaluate_every.is_at(grant.end_turn))
    grant.evaluation_batches = length_.evaluation_batches;
  grant.checkpoint =
      grant.finish || length_.checkpoint_every.is_at(grant.end_turn) ||
      (length_.checkpoint_evaluations && grant.evaluation_batches > 0);
}

/// The first grant has no turns. A run that was saved at the very turn of a
/// switch may not have been drained there.
Grant Coordinator::first_grant() const {
  const Switch* next = next_switch();
  return {
      .first_turn = length_.first_turn,
      .end_turn = length_.first_turn,
      .phase = phase_,
      .first_batch = length_.first_batch,
      .drain = next && !next->on_measure() && next->turn <= length_.first_turn,
      .checkpoint = length_.initial_checkpoint && length_.first_turn == 0};
}

void Coordinator::enter(std::int64_t phase, std::int64_t turn) {
  phase_ = phase;
  switch_is_due_ = false;
  if (sink_) sink_->write(records::Phase{.turn = turn, .phase = phase});
}

/// Whether a grant begins a phase; within a run only a switch of phases drains.
bool Coordinator::begins_phase(const Grant& before) const {
  return before.drain && before.phase == phase_;
}

Grant Coordinator::decide() {
  if (decided_.empty()) return first_grant();
  Grant before = decided_.back();
  if (begins_phase(before)) {
    enter(phase_ + 1, before.end_turn);
    before.first_batch = before.end_turn;
  }
  Grant grant = next_turns(before);
  // Inside a turn nothing is decided.
  const bool is_inside = before.part == TurnPart::play;
  const bool is_early = !is_inside && early_stop_.is_due();
  const bool is_paused = length_.pause_turn > length_.first_turn &&
                         before.end_turn == length_.pause_turn;
  interrupted_ = !is_inside && !is_early && (stop_.load() || is_paused) &&
                 before.end_turn < length_.turns;
  if (is_early && sink_) sink_->write(early_stop_.record(before.end_turn));
  if (is_early || interrupted_)
    grant = {.first_turn = before.end_turn,
             .end_turn = before.end_turn,
             .phase = phase_,
             .first_batch = before.first_batch,
             .checkpoint = true,
             .finish = true};
  else if (switch_is_due_ && !is_inside)
    return {.first_turn = before.end_turn,
            .end_turn = before.end_turn,
            .phase = phase_,
            .first_batch = before.first_batch,
            .drain = true};
  // What was interrupted is to be continued: what is in flight stays so. And an
  // early stop keeps the weights that were evaluated.
  grant.drain = grant.finish && length_.drain && !interrupted_ && !is_early;
  const Switch* next = next_switch();
  const bool is_whole = grant.part != TurnPart::play;
  if (is_whole && !grant.finish && next && !next->on_measure() &&
      grant.end_turn >= next->turn)
    grant.drain = true;
  // Blocks that run ahead would mix their files into the checkpoint that is
  // being finished; before an early stop all have finished it.
  const bool is_saved = before.checkpoint && grant.end_turn == before.end_turn;
  if (is_saved && !is_early) grant.checkpoint = false;
  return grant;
}

/// Early stopping, and a switch on a measure, need the evaluation before they
/// decide; all blocks being done with it, its checkpoint is whole too. At a
/// barrier every grant waits so.
bool Coordinator::must_wait() const {
  if (decided_.empty() || reached_by_.back() == blocks_) return false;
  const Switch* next = next_switch();
  const bool is_asked_for =
      early_stop_.enabled() || (next && next->on_measure());
  const bool is_evaluated = decided_.back().evaluation_batches > 0;
  return (is_asked_for && is_evaluated) || barrier() != Barrier::none;
}

Coordinator::CoordinatorReply Coordinator::ask(std::size_t n) {
  const std::lock_guard lock(mutex_);
  SLUICE_CHECK(n <= decided_.size(), "grant {} asked for, {} were decided", n,
               decided_.size());
  if (n == decided_.size()) {
    if (!decided_.empty() && decided_.back().finish) return {Answer::over, {}};
    if (must_wait()) return {Answer::later, {}};
    decided_.push_back(decide());
    reached_by_.push_back(0);
  }
  return {Answer::granted, decided_[n]};
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

/// The turn at which so many grants end.
std::int64_t Coordinator::turn_after(std::size_t grants) const {
  return grants == 0 ? length_.first_turn : decided_.at(grants - 1).end_turn;
}

/// Takes a lost replica out at the end of the last grant that it has finished.
void Coordinator::lost(int replica, std::size_t grants,
                       const std::string& reason) {
  const std::lock_guard lock(mutex_);
  const std::int64_t turn = turn_after(grants);
  if (sink_)
    sink_->write(records::LostReplica{
        .turn = turn,
        .replica = replica,
        .turns_left_out = length_.has_shares ? length_.turns - turn : 0,
        .reason = reason});
}

void Coordinator::joined(int replica, std::size_t first_grant) {
  const std::lock_guard lock(mutex_);
  if (sink_)
    sink_->write(records::JoinedReplica{.turn = turn_after(first_grant),
                                        .replica = replica});
}

double Coordinator::seconds() {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(last_reached_ - all_there_).count();
}

std::int64_t Coordinator::turns_granted() {
  const std::lock_guard lock(mutex_);
  return decided_.empty() ? length_.first_turn : decided_.back().end_turn;
}

void Coordinator::write(const Record& record) {
  const std::lock_guard lock(mutex_);
  if (const auto evaluation = record.as<records::Evaluation>())
    evaluated(*evaluation);
  if (sink_) sink_->write(record);
}

void Coordinator::recall(const Record& record) {
  const std::lock_guard lock(mutex_);
  // Evaluations before the phase began say nothing about the phase.
  const auto phase = record.as<records::Phase>();
  if (phase && phase->phase <= phase_) switch_is_due_ = false;
  if (const auto evaluation = record.as<records::Evaluation>())
    evaluated(*evaluation);
}

void Coordinator::evaluated(const records::Evaluation& evaluation) {
  early_stop_.evaluated(evaluation);
  const Switch* next = next_switch();
  if (next && next->reached(next->measure.in(evaluation)))
    switch_is_due_ = true;
}

}  // namespace sluice
