#include "lib/engines/seat_order.h"

#include "lib/base/error.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

SeatOrder::SeatOrder(const Plans& plans, int executor)
    : plans_(plans), executor_(executor) {
  for (const int seat : seats_of(plans.at(0), executor)) seats_[seat] = {};
}

void SeatOrder::begin(int number, const Grant& grant) {
  const RunPlan& plan = plans_.at(static_cast<std::size_t>(grant.phase));
  const std::vector<SeatAction> all = executor_actions(plan, executor_, grant);
  const std::lock_guard lock(mutex_);
  Place& seat = seats_.at(number);
  for (const SeatAction& each : all) {
    const std::int64_t place = seat.given++;
    if (each.seat == number) seat.places.push_back(place);
  }
}

bool SeatOrder::is_turn_of(const Place& seat) const {
  return !seat.places.empty() && seat.places.front() == done_;
}

void SeatOrder::execute(int number, const std::function<void()>& action) {
  std::unique_lock lock(mutex_);
  Place& seat = seats_.at(number);
  changed_.wait(lock, [&] { return has_failed_ || is_turn_of(seat); });
  if (has_failed_)
    throw PeerGoneError("a block that shares its executor with {} has failed",
                        name_of_seat(plans_.front(), number));
  lock.unlock();
  action();
  lock.lock();
  seat.places.pop_front();
  ++done_;
  changed_.notify_all();
}

void SeatOrder::fail() {
  const std::lock_guard lock(mutex_);
  has_failed_ = true;
  changed_.notify_all();
}

}  // namespace sluice
