#include "experiments/config/tables/lengths.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "experiments/data/order/sample_order.h"
#include "experiments/data/samples/split.h"
#include "lib/updates/optimizer.h"

namespace sluice {
namespace {

std::int64_t deals_of(double epochs, const Experiment& experiment) {
  return std::llround(epochs * static_cast<double>(experiment.deals_per_epoch));
}

std::int64_t evaluation_batches_of(const Split& split,
                                   std::int64_t batch_size) {
  if (split.size() == 0) return 0;
  return SampleOrder(split.size(),
                     {.batch_size = batch_size, .shuffled = false})
      .batches_per_epoch();
}

/// A step of an optimizer is by the gradients of all replicas, backup workers
/// left out, or by one's.
std::int64_t samples_per_step(const Experiment& experiment) {
  const ReplicaSettings& replicas = experiment.replicas;
  return replicas.kind.exchange.leaves_them_apart()
             ? experiment.batch_size
             : experiment.batch_size *
                   std::max<std::int64_t>(
                       1, replicas.count - replicas.kind.backup);
}

}  // namespace

Epochs epochs_of(const Experiment& experiment) {
  const std::int64_t batches = experiment.deals_per_epoch > 0
                                   ? experiment.deals_per_epoch
                                   : experiment.turns_per_epoch;
  return {.batches = std::max<std::int64_t>(1, batches),
          .deals = experiment.replicas.deals()};
}

Rhythm rhythm_of(double epochs, const Experiment& experiment) {
  if (epochs == 0) return {};
  return {.every = std::max<std::int64_t>(1, deals_of(epochs, experiment)),
          .deals = experiment.replicas.deals()};
}

std::int64_t turn_after(double epochs, const Experiment& experiment) {
  if (epochs == 0) return 0;
  return std::max<std::int64_t>(
      1, experiment.replicas.deals().turn_with(deals_of(epochs, experiment)));
}

std::int64_t turns_of_run(double epochs, const Experiment& experiment) {
  if (epochs == 0) return 0;
  return std::max<std::int64_t>(
      1, experiment.replicas.deals().turn_after(deals_of(epochs, experiment)));
}

std::int64_t batches_left_over(const Experiment& experiment) {
  if (experiment.turns > 0 || !experiment.data) return 0;
  return std::max<std::int64_t>(
      0, deals_of(experiment.epochs, experiment) -
             experiment.replicas.deals().by(experiment.length.turns));
}

void derive_length(Experiment& experiment) {
  const std::int64_t per_epoch =
      SampleOrder(experiment.data->train.size(),
                  {.batch_size = experiment.batch_size,
                   .drop_last = experiment.drop_last})
          .batches_per_epoch();
  experiment.deals_per_epoch = per_epoch;
  experiment.turns_per_epoch =
      std::max<std::int64_t>(1, per_epoch / experiment.replicas.count);
  experiment.validation_batches =
      evaluation_batches_of(experiment.data->validation, experiment.batch_size);
  experiment.training_batches = evaluation_batches_of(
      experiment.data->training_part, experiment.batch_size);
  CheckpointSettings& saving = experiment.checkpoint;
  saving.keep.every = saving.every_turns > 0
                          ? Rhythm{.every = saving.every_turns}
                          : rhythm_of(saving.every, experiment);
  RunLength& length = experiment.length;
  length.turns = experiment.turns > 0
                     ? experiment.turns
                     : turns_of_run(experiment.epochs, experiment);
  length.evaluate_every = rhythm_of(experiment.evaluate_every, experiment);
  length.checkpoint_every = saving.keep.every;
  length.initial_checkpoint = saving.keep.initial;
  length.checkpoint_evaluations = saving.keep.best.has_value();
  // Each grant empties the pipe at its end.
  if (!experiment.pipeline.flush) length.grant_turns = 256;
  length.evaluation_batches =
      experiment.validation_batches + experiment.training_batches +
      evaluation_batches_of(experiment.data->test, experiment.batch_size);
  for (OptimizerOptions& options : experiment.optimizers)
    options.learning_rate.scale_to(samples_per_step(experiment));
  experiment.tells_status = true;
}

void cut_turns(const Fields& top, Experiment& experiment) {
  const std::int64_t count = experiment.pipeline.micro_batches;
  if (count == 1 && experiment.replicas.count == 1) return;
  const std::int64_t samples = experiment.batch_size;
  if (samples % count != 0)
    top.reject("pipeline",
               fmt::format("{} micro_batches can't be made of batch_size = {}: "
                           "it must be a multiple of them",
                           count, samples));
  if (count > 1 && experiment.probe_every > 0)
    top.reject("probe",
               "compares whole turns: leave it out, or set "
               "pipeline.micro_batches = 1");
  const std::int64_t turns = experiment.deals_per_epoch;
  const std::int64_t rest =
      experiment.data->train.size() - (turns - 1) * samples;
  experiment.micro_batches = {
      .count = count,
      .samples = samples,
      .turns_per_epoch = turns,
      .last_samples = experiment.drop_last ? samples : rest};
}

}  // namespace sluice
