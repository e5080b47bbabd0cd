// Full unlock: a block that forwards what an input model predicts of the
// features from below, and teaches that model when the features have come.
// Nothing changes the model in between, so the graph of its forward is that of
// the lesson, and no batch is between the two when a turn has ended.
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/gradients.h"
#include "lib/tensors/staging.h"
#include "lib/workers/worker.h"

namespace sluice {
namespace {

/// Regression in the norm of the synthesizers': the sum over the features of a
/// sample, averaged over the batch.
at::Tensor input_loss(const at::Tensor& predicted, const at::Tensor& features) {
  const at::Tensor error = predicted.to(at::kFloat) - features.to(at::kFloat);
  return error.square().sum() / static_cast<double>(features.size(0));
}

}  // namespace

void Worker::add_unlock(std::size_t phase, std::shared_ptr<Unlock> unlock) {
  move_to(device(), unlock->parameters);
  move_to(device(), unlock->buffers);
  Stage& stage = stages_.at(phase);
  stage.input_learners = add_learners(
      unlock->parameters, unlock->optimizer ? &*unlock->optimizer : nullptr);
  stage.unlock = std::move(unlock);
}

Worker::Fed Worker::predict_inputs(const Action& action) {
  const Batch batch = parts_.training->batch(action.batch);
  predicted_ = {
      action.batch,
      stages_[phase()].unlock->model->forward(
          on_device(laid_out(batch.inputs, settings_.memory_format), device()),
          on_device(batch.labels, device()), pass_for(action, true))};
  return {{predicted_.features.detach()}, batch.labels, batch.raw_inputs};
}

void Worker::learn_input(const Action& action) {
  const Message message =
      receive(*parts_.below.receiver, MessageKind::activation, action.batch);
  const Tensors features =
      unpack(message, "h", parts_.codec_below.get(), device());
  const Predicted predicted = std::exchange(predicted_, {});
  SLUICE_CHECK(predicted.batch == action.batch,
               "block {} has no forward of batch {}", block(), action.batch);
  if (features.size() != 1)
    throw UserError(
        "block {}: {} features come from below; an input model predicts one: "
        "leave out the unlock of boundary {}",
        block(), features.size(), block() - 1);
  if (features[0].sizes() != predicted.features.sizes())
    throw UserError(
        "block {}: its input model made [{}] of batch {}, the block below [{}]",
        block(), fmt::join(predicted.features.sizes(), ", "), action.batch,
        fmt::join(features[0].sizes(), ", "));
  const at::Tensor loss = input_loss(predicted.features, features[0]);
  Learners& mine = learners_[stages_[phase()].input_learners];
  step(mine, gradients_at(values_of(mine.tensors), {loss}), action);
  if (action.turn % settings_.log_every == 0)
    log_.learned(action, "input_loss", loss.detach());
}

}  // namespace sluice
