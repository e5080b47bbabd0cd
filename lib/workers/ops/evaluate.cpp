// Evaluations and checkpoints, of the weights that are evaluated.
#include <utility>

#include <c10/core/GradMode.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/workers/ops/ops.h"
#include "lib/workers/seat_state.h"

namespace sluice::ops {

void evaluate(SeatCore& seat, const Action& action) {
  const at::NoGradGuard no_grad;
  if (action.batch == 0) {
    seat.log.settle();
    seat.evaluations.begin();
    seat.show_average();
  }
  const Payload fed = seat.messages.evaluation_input(action);
  const Tensors outputs = seat.ends().lower->evaluated(
      seat.evaluated.block_for(seat.block)
          .forward(fed.features, seat.pass_for(action.batch, false)));
  seat.messages.send_up(
      seat.messages.message_of(MessageKind::evaluation, action), outputs, fed);
  if (seat.place.is_last())
    seat.evaluations.add(action, outputs[0],
                         on_device(fed.labels, seat.device()), seat.log);
}

void save(SeatCore& seat, const Action& action) {
  // A drain goes on with turns that forward nothing.
  if (seat.progress.last_turn >= action.turn)
    seat.progress.first_batch = action.turn;
  seat.log.settle();    // a loss that ends the run is known before it is saved
  seat.show_average();  // also where a replay compares it with what was saved
  const std::string& folder = seat.settings.checkpoint_folder;
  if (folder.empty()) return;
  const int block = seat.block.index();
  const NamedTensors weights = seat.trained.weights();
  save_block(folder, action.batch, {block, seat.plan().replica},
             seat.evaluated.in_place_of(weights), state_of(seat));
  if (seat.evaluated.are_others())
    save_own_weights(folder, action.batch, block, weights);
}

}  // namespace sluice::ops
