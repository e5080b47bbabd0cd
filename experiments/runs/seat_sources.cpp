#include "experiments/runs/seat_sources.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/assist_rules.h"
#include "experiments/data/assisted_source.h"
#include "experiments/data/chained.h"
#include "experiments/data/copied_ahead.h"
#include "experiments/data/label_pairs.h"
#include "experiments/data/prefetch.h"
#include "lib/base/by_block.h"
#include "lib/blocks/micro_batch_source.h"

namespace sluice {
namespace {

bool forwards_data(const RunPlan& plan, int block) {
  return by_block(plan.blocks, block).forwards_data();
}

/// Whether any block keeps, or relays to blocks above, that attachment.
bool need(const Plans& plans, const char* attachment) {
  return std::any_of(plans.begin(), plans.end(), [&](const RunPlan& plan) {
    return std::any_of(
        plan.blocks.begin(), plan.blocks.end(), [&](const BlockPlan& block) {
          const auto has = [&](const std::vector<std::string>& names) {
            return std::find(names.begin(), names.end(), attachment) !=
                   names.end();
          };
          return has(block.keeps) || has(block.relays);
        });
  });
}

OrderOptions training_order(const Experiment& experiment) {
  return {.batch_size = experiment.batch_size,
          .seed = experiment.seed,
          .drop_last = experiment.drop_last,
          .raw_inputs = need(experiment.plans, kRawInput),
          .sample_ids = need(experiment.plans, kSampleIds)};
}

}  // namespace

std::unique_ptr<SampleSource> training_source(const Experiment& experiment) {
  std::shared_ptr<const Samples> samples = experiment.data->train.samples();
  if (experiment.model.trains_on_pairs)
    samples = label_pairs(std::move(samples), experiment.model.sample.classes);
  return std::make_unique<SampleSource>(std::move(samples),
                                        training_order(experiment));
}

namespace {

/// No batch is made before the losses are there that it depends on: nothing is
/// prefetched.
std::unique_ptr<Source> assisted_source(const Experiment& experiment) {
  AssistOptions options = experiment.assist;
  options.lag = lag_of_assistant(experiment);
  return std::make_unique<AssistedSource>(experiment.data->train.samples(),
                                          experiment.data->sample,
                                          training_order(experiment), options);
}

std::unique_ptr<Source> source_in_order(const Experiment& experiment,
                                        const Split& split) {
  return std::make_unique<SampleSource>(
      split.samples(), OrderOptions{.batch_size = experiment.batch_size,
                                    .seed = experiment.seed,
                                    .shuffled = false,
                                    .augmented = false});
}

/// The validation split and the training part, where there are such, and then
/// the test split.
std::unique_ptr<Source> evaluation_source(const Experiment& experiment) {
  const DataSet& data = *experiment.data;
  auto source = source_in_order(experiment, data.test);
  for (const Split* split : {&data.training_part, &data.validation})
    if (split->size() > 0)
      source = chained(source_in_order(experiment, *split), std::move(source));
  return source;
}

/// A source that makes batches ahead; for a block on a GPU they are copied
/// there ahead, too.
std::unique_ptr<Source> made_ahead(std::unique_ptr<Source> source,
                                   const Experiment& experiment,
                                   const c10::Device& device,
                                   std::int64_t stride) {
  if (device.is_cpu())
    return prefetched(std::move(source), experiment.prefetch, stride);
  return in_order_of_copies(prefetched(
      copied_ahead(std::move(source), device, experiment.memory_format),
      experiment.prefetch, stride));
}

std::unique_ptr<Source> batches_to_train_on(const Experiment& experiment,
                                            int block,
                                            const c10::Device& device) {
  if (experiment.assist.is_on()) return assisted_source(experiment);
  return in_micro_batches(
      made_ahead(training_source(experiment), experiment, device,
                 experiment.replicas.of_block(block)),
      experiment.micro_batches);
}

}  // namespace

Sources sources_of(const Experiment& experiment, const BlockPlan& seat,
                   const c10::Device& device, std::shared_ptr<Source> fed) {
  const int block = seat.block;
  if (fed) return {.training = std::move(fed)};
  const bool is_first = block == 1;
  const bool trains_from_data =
      is_first || std::any_of(experiment.plans.begin(), experiment.plans.end(),
                              [&](const RunPlan& plan) {
                                return forwards_data(plan, block);
                              });
  Sources sources;
  if (trains_from_data)
    sources.training = batches_to_train_on(experiment, block, device);
  if (is_first && seat.replica == 1)
    sources.evaluation =
        made_ahead(evaluation_source(experiment), experiment, device, 1);
  return sources;
}

}  // namespace sluice
