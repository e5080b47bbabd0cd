#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "lib/base/error.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/leaves.h"
#include "lib/workers/ops/ops.h"
#include "lib/workers/ops/parts_of_ops.h"

namespace sluice::ops {
namespace {

/// Attachments that stay with a batch, on the block's device.
Attachments kept_of(const SeatCore& seat, const Payload& fed) {
  Attachments kept;
  for (const auto* names :
       {&seat.plan().lower.keeps, &seat.plan().lower.relays})
    for (const std::string& name : *names)
      SLUICE_CHECK(fed.attachments.contains(name),
                   "block {} got no {} with its batch, which the policy of a "
                   "boundary needs",
                   seat.block.index(), name);
  for (const std::string& name : seat.plan().lower.keeps)
    kept[name] = on_device(fed.attachments.at(name), seat.device());
  return kept;
}

/// A batch's flight. The updates ahead of it are those of all that is in
/// flight, which is applied before it.
Flight flight_of(const SeatCore& seat, const Action& action,
                 const Payload& fed) {
  const BlockPlan& plan = seat.plan();
  const std::int64_t version = seat.progress.version;
  const std::int64_t before =
      seat.window.batches + std::ssize(seat.held.flights);
  const std::int64_t in_window = plan.accumulate * plan.micro_batches.in_turn();
  return {.inputs = leaves_of(fed.features, plan.gradient_to_below()),
          .labels = on_device(fed.labels, seat.device()),
          .pass = seat.pass_for(action.batch, true),
          .version = version,
          .entry_version = plan.segment.below > 0 ? fed.version : version,
          .attachments = kept_of(seat, fed),
          .updates_ahead = before / in_window,
          .rate = seat.rate_of(seat.trained.update(), action.turn)};
}

/// Reads the weights that the replicas share, once for each version: before the
/// first batch that sees it. No graph refers to the weights after an update
/// yet, so they are overwritten in place.
void take_shared(SeatCore& seat) {
  if (!seat.replicas.share_weights() || seat.window.batches > 0 ||
      seat.held.have_version(seat.progress.version))
    return;
  seat.replicas.before_forward();
}

}  // namespace

void forward(SeatCore& seat, const Action& action) {
  const Payload fed = seat.ends().upper->inputs(
      input_context(seat, action), [&] { return seat.messages.input(action); });
  take_shared(seat);
  Flight flight = flight_of(seat, action, fed);
  const Tensors outputs = seat.view->forward(flight);
  Message message = seat.messages.message_of(MessageKind::activation, action);
  message.weight_version = flight.version;
  if (seat.plan().lower.publishes)
    seat.messages.send_up(
        std::move(message),
        seat.ends().lower->publish(action.batch, outputs, flight.attachments),
        fed);
  else
    seat.messages.send_up(std::move(message), outputs, fed);
  seat.held.flights.emplace(action.batch, std::move(flight));
  seat.note_memory();
}

}  // namespace sluice::ops
