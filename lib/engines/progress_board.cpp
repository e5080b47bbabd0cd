#include "lib/engines/progress_board.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/schedules/plan/op_table.h"

namespace sluice {
namespace {

/// `op`: as another process says it.
std::string_view name_of(int op) {
  const auto index = static_cast<std::size_t>(op);
  return index < kOps ? op_rows()[index].doing : "unknown";
}

double seconds(ProgressBoard::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

ProgressBoard::ProgressBoard(int blocks, Clock::duration most_between_looks,
                             const AwakeClock::Source& clock,
                             const SeatNames& names)
    : clock_(most_between_looks, clock),
      names_(names),
      workers_(static_cast<std::size_t>(blocks)) {
  for (Worker& worker : workers_) worker.heard = worker.moved = clock_.now();
}

std::string ProgressBoard::waited_for(int there) const {
  if (there == kLauncher) return "the launcher";
  return there == kAnyNeighbour ? "any neighbour" : names_.of(there);
}

ProgressBoard::Worker& ProgressBoard::at(int block) {
  return by_block(workers_, block);
}

void ProgressBoard::heard(int block, bool has_moved) {
  Worker& worker = at(block);
  worker.heard = clock_.now();
  worker.was_heard = true;
  if (has_moved) worker.moved = worker.heard;
}

void ProgressBoard::progress(int block, const Progress& now) {
  Worker& worker = at(block);
  if (now.moves != worker.last.moves) worker.moved = clock_.now();
  worker.last = now;
}

void ProgressBoard::ended(int block) {
  Worker& worker = at(block);
  worker.has_ended = true;
  worker.moved = clock_.now();
}

void ProgressBoard::joined(int block) {
  const Clock::time_point now = clock_.now();
  at(block) = {.was_heard = true, .heard = now, .moved = now};
}

bool ProgressBoard::all_heard() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) {
                       return worker.was_heard || worker.has_ended;
                     });
}

std::string ProgressBoard::why(const Worker& worker, Clock::time_point now,
                               bool is_silent) const {
  const std::string where =
      worker.last.action < 0 ? "starting"
                             : fmt::format("in turn {} ({})", worker.last.turn,
                                           name_of(worker.last.action));
  if (is_silent)
    return fmt::format(
        "hangs: it was silent for {:.1f} s; when it was last heard, it was {}",
        seconds(now - worker.heard), where);
  return fmt::format("hangs: it made no progress for {:.1f} s, {}",
                     seconds(now - worker.moved), where);
}

std::optional<Stall> ProgressBoard::stalled(Deadline deadline) const {
  const Clock::time_point now = clock_.now();
  std::optional<Stall> longest;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    if (worker.has_ended) continue;
    // The last message of a silent process doesn't say whether it still waits.
    const auto silent =
        std::chrono::duration_cast<Deadline>(now - worker.heard);
    const auto idle = std::chrono::duration_cast<Deadline>(now - worker.moved);
    const bool is_silent = silent >= deadline;
    const bool waits = worker.last.waits_for != kNobody;
    const Deadline since = is_silent || waits ? silent : idle;
    if (since < deadline || (longest && since <= longest->since)) continue;
    longest = {static_cast<int>(i) + 1, since, is_silent,
               why(worker, now, is_silent)};
  }
  return longest ? longest : circle(deadline, now);
}

bool ProgressBoard::all_wait(Deadline deadline) const {
  return circle(deadline, clock_.now()).has_value();
}

/// A message was lost between them, or the schedule is a circle. One that has
/// ended may have sent what another still waits for, or is lost, and the news
/// of it is still on its way to the others.
std::optional<Stall> ProgressBoard::circle(Deadline deadline,
                                           Clock::time_point now) const {
  Clock::time_point moved = Clock::time_point::min();
  std::string who;
  int seat = 0;
  for (const Worker& worker : workers_) {
    ++seat;
    if (!worker.has_ended && worker.last.waits_for == kNobody)
      return std::nullopt;
    moved = std::max(moved, worker.moved);
    if (!worker.has_ended)
      who += fmt::format("{}{} for {}", who.empty() ? "" : ", ",
                         names_.of(seat), waited_for(worker.last.waits_for));
  }
  const auto since = std::chrono::duration_cast<Deadline>(now - moved);
  if (who.empty() || since < deadline) return std::nullopt;
  return Stall{.since = since,
               .why = fmt::format("no block moved for {:.1f} s, all wait: {}",
                                  seconds(now - moved), who)};
}

}  // namespace sluice
