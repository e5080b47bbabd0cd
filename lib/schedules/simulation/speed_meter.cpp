#include "lib/schedules/simulation/speed_meter.h"

#include <algorithm>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/schedules/orders/executors.h"

namespace sluice {

SpeedMeter::SpeedMeter(const RunPlan& plan, const Costs& costs,
                       std::int64_t first_turn, std::int64_t end_turn)
    : plan_(plan),
      given_(costs),
      costs_(by_seat(costs, plan)),
      first_turn_(first_turn),
      end_turn_(end_turn),
      seats_before_window_(plan.blocks.size()),
      open_(plan.blocks.size()),
      totals_{.busy = std::vector<double>(plan.blocks.size())} {}

double SpeedMeter::seconds_inside(const Interval& interval) const {
  return std::max(
      0., std::min(interval.end, end_) - std::max(interval.start, start_));
}

/// Counts what can't change any more. The window begins when all seats have
/// done the turns before it, and ends no sooner than is known.
void SpeedMeter::close(Open& open) const {
  const bool has_begun = seats_before_window_ == 0;
  while (!open.intervals.empty()) {
    const Interval& first = open.intervals.front();
    const bool is_before = first.end <= start_;
    if (!is_before && !(has_begun && first.end <= end_)) return;
    if (!is_before) open.inside += seconds_inside(first);
    open.intervals.pop_front();
  }
}

void SpeedMeter::add(const TimedAction& timed) {
  const std::int64_t turn = timed.action.turn;
  Open& open = by_block(open_, timed.seat);
  if (turn < first_turn_)
    start_ = std::max(start_, timed.end);
  else if (!std::exchange(open.is_in_window, true))
    --seats_before_window_;
  if (turn < end_turn_) end_ = std::max(end_, timed.end);
  open.intervals.push_back({timed.start, timed.end});
  close(open);
  by_block(totals_.busy, timed.seat) += timed.end - timed.start;
  double bytes = 0;
  for (const Transfer& sent : yields_of(plan_, timed.seat, timed.action))
    bytes += bytes_of(costs_, sent);
  totals_.bytes += bytes;
  if (turn >= first_turn_ && turn < end_turn_) bytes_ += bytes;
}

Speed SpeedMeter::with_totals(Speed speed, double bytes, double seconds,
                              std::int64_t turns) const {
  const auto number = static_cast<double>(turns);
  for (double& part : speed.utilisation) part /= seconds;
  speed.seconds_per_turn = seconds / number;
  speed.bytes_per_turn = bytes / number;
  speed.speed_up = plan_.replicas * seconds_in_one_block(given_, plan_) /
                   speed.seconds_per_turn;
  return speed;
}

Speed SpeedMeter::speed() const {
  Speed speed{.utilisation = std::vector<double>(open_.size()),
              .executors = executors_of(plan_)};
  if (end_ <= start_) return speed;
  for (std::size_t k = 0; k < open_.size(); ++k) {
    speed.utilisation[k] = open_[k].inside;
    for (const Interval& interval : open_[k].intervals)
      speed.utilisation[k] += seconds_inside(interval);
  }
  return with_totals(std::move(speed), bytes_, end_ - start_,
                     end_turn_ - first_turn_);
}

Speed SpeedMeter::speed_between(const Totals& before, const Totals& after,
                                double seconds, std::int64_t turns) const {
  Speed speed{.utilisation = std::vector<double>(open_.size()),
              .executors = executors_of(plan_)};
  if (seconds <= 0) return speed;
  for (std::size_t k = 0; k < open_.size(); ++k)
    speed.utilisation[k] = after.busy[k] - before.busy[k];
  return with_totals(std::move(speed), after.bytes - before.bytes, seconds,
                     turns);
}

}  // namespace sluice
