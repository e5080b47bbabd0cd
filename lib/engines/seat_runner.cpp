#include "lib/engines/seat_runner.h"

#include <optional>
#include <utility>

namespace sluice {

SeatRunner::SeatRunner(Heartbeat& heartbeat, ActionWrapper around)
    : heartbeat_(&heartbeat), around_(std::move(around)) {}

void SeatRunner::begin(int block, const Grant& grant) const {
  if (order_) order_->begin(block, grant);
}

void SeatRunner::fail() const {
  if (order_) order_->fail();
}

void SeatRunner::execute(const Action& action, Seat& seat) const {
  if (!order_) return perform(action, seat);
  // The seat waits for another one of the same executor; which one, that seat's
  // own heartbeat shows.
  std::optional<WaitScope> shown;
  if (heartbeat_ != nullptr) shown.emplace(*heartbeat_, kAnyNeighbour);
  std::optional<SeatClock::WaitScope> counted;
  counted.emplace(seat.clock());
  order_->execute(seat.number(), [&] {
    counted.reset();
    shown.reset();
    perform(action, seat);
  });
}

void SeatRunner::perform(const Action& action, Seat& seat) const {
  if (heartbeat_ != nullptr) heartbeat_->begins(action);
  if (around_)
    around_(action, [&] { seat.execute(action); });
  else
    seat.execute(action);
  if (heartbeat_ != nullptr) heartbeat_->moves();
}

bool SeatRunner::wait(Seat& seat, const Bell& bell, std::uint64_t heard) const {
  std::optional<WaitScope> waiting;
  if (heartbeat_ != nullptr) waiting.emplace(*heartbeat_, kAnyNeighbour);
  return seat.ports().wait(bell, heard);
}

}  // namespace sluice
