#include "lib/engines/executor.h"

#include <optional>
#include <utility>

namespace sluice {

Executor::Executor(Pulse& pulse, Around around)
    : pulse_(&pulse), around_(std::move(around)) {}

void Executor::begin(int block, const Grant& grant) const {
  if (order_) order_->begin(block, grant);
}

void Executor::fail() const {
  if (order_) order_->fail();
}

void Executor::execute(const Action& action, Worker& worker) const {
  if (!order_) return perform(action, worker);
  // Of another block of the executor, which its own pulse shows.
  std::optional<Waiting> shown;
  if (pulse_ != nullptr) shown.emplace(*pulse_, kAnyNeighbour);
  std::optional<SeatClock::Waiting> counted;
  counted.emplace(worker.clock());
  order_->execute(worker.block(), [&] {
    counted.reset();
    shown.reset();
    perform(action, worker);
  });
}

void Executor::perform(const Action& action, Worker& worker) const {
  if (pulse_ != nullptr) pulse_->begins(action);
  if (around_)
    around_(action, [&] { worker.execute(action); });
  else
    worker.execute(action);
  if (pulse_ != nullptr) pulse_->moves();
}

bool Executor::wait(Worker& worker, const Bell& bell,
                    std::uint64_t heard) const {
  std::optional<Waiting> waiting;
  if (pulse_ != nullptr) waiting.emplace(*pulse_, kAnyNeighbour);
  return worker.ports().wait(bell, heard);
}

}  // namespace sluice
