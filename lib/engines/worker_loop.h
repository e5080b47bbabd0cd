#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "lib/base/messages/channel.h"
#include "lib/engines/control_codec.h"
#include "lib/engines/fed_source.h"
#include "lib/engines/seat_runner.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/plan/plan.h"
#include "lib/workers/seat.h"

namespace sluice {

/// Records that go to the crew over a worker's control link.
std::shared_ptr<Sink> control_sink(Sender& control);

/// Makes the link of a worker of replica 1 with one of a replica that joins;
/// nothing: that didn't come.
using LinkToNewcomer = std::function<std::optional<Link>(const Newcomer&)>;

/// A worker with a thread or process of its own: takes its crew's grants
/// (linked_crew.h) and executes their actions, until the last one. `make`
/// builds the seat; what it or the seat throws is reported to the crew and
/// thrown on. Batches that come with grants are put into `fed`. Without
/// link_to_newcomer the run's replicas neither join nor are lost.
void run_worker(int block, const Plans& plans, Link& control,
                const std::function<std::unique_ptr<Seat>()>& make,
                const SeatRunner& runner = {}, FedSource* fed = nullptr,
                const LinkToNewcomer& link_to_newcomer = nullptr);

}  // namespace sluice
