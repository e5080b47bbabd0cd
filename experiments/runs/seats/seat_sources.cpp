#include "experiments/runs/seats/seat_sources.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/rules/assist_rules.h"
#include "experiments/config/rules/on_device.h"
#include "experiments/data/change/assisted_source.h"
#include "experiments/data/change/free_assisted_source.h"
#include "experiments/data/order/copied_ahead.h"
#include "experiments/data/order/echo.h"
#include "experiments/data/order/gathered.h"
#include "experiments/data/order/prefetch.h"
#include "experiments/data/samples/chained.h"
#include "experiments/data/samples/label_pairs.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/blocks/micro_batch_source.h"

namespace sluice {
namespace {

bool forwards_data(const RunPlan& plan, int block) {
  return by_block(plan.blocks, block).forwards_data();
}

OrderOptions training_order(const Experiment& experiment) {
  return {.batch_size = experiment.batch_size,
          .seed = experiment.seed,
          .drop_last = experiment.drop_last,
          .raw_inputs = need(experiment.plans, kRawInput),
          .sample_ids = need(experiment.plans, kSampleIds),
          .echo = echo_in(experiment.resolved)};
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

OrderOptions evaluation_order(const Experiment& experiment) {
  return {.batch_size = experiment.batch_size,
          .seed = experiment.seed,
          .shuffled = false,
          .augmented = false};
}

/// In lockstep no batch is made before the losses are there that it depends on:
/// nothing is prefetched. A replay draws by the record, in the seat's thread.
std::unique_ptr<Source> assisted_source(const Experiment& experiment,
                                        int block) {
  const AssistOptions& options = experiment.assist;
  AssistedDraws draws(experiment.data->train.samples(), experiment.data->sample,
                      training_order(experiment), options,
                      experiment.replicas.of_block(block));
  if (!options.is_free)
    return std::make_unique<AssistedSource>(std::move(draws),
                                            lag_of_assistant(experiment));
  const auto& recorded = experiment.recorded_lessons;
  const std::int64_t ahead = recorded ? 0 : experiment.prefetch;
  return std::make_unique<FreeAssistedSource>(
      std::move(draws),
      FreeDraws{
          .ahead = ahead,
          .in_thread = ahead > 0 && experiment.engine != Engine::virtual_time,
          .recorded = recorded});
}

std::unique_ptr<Source> source_in_order(const Experiment& experiment,
                                        const Split& split) {
  return std::make_unique<SampleSource>(split.samples(),
                                        evaluation_order(experiment));
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

/// Whether batches of the splits are gathered on the device. Throws UserError
/// where they shall be, and can't.
bool lie_on(const Experiment& experiment, const c10::Device& device,
            const std::vector<Split>& splits, bool augmented) {
  const DataPlacement wanted = on_device_in(experiment.resolved);
  if (device.is_cpu() || wanted == DataPlacement::never ||
      !kept_off_device(experiment).empty())
    return false;
  std::set<std::shared_ptr<const InputStore>> stores;
  for (const Split& split : splits)
    stores.insert(split.samples()->input_store(augmented));
  const bool can = stores.count(nullptr) == 0;
  if (!can && wanted == DataPlacement::always)
    throw UserError(
        "data.on_device = true, but the samples of this data set are read or "
        "made one by one: set \"auto\", or choose images that are in memory, "
        "or a text");
  std::int64_t bytes = 0;
  if (can)
    for (const auto& store : stores) bytes += store->bytes();
  return can && (wanted == DataPlacement::always || fit_on(device, bytes));
}

/// Batches of which only the places of samples are copied to the device.
std::unique_ptr<Source> gathered_there(const Experiment& experiment,
                                       const Split& split,
                                       const OrderOptions& order,
                                       const c10::Device& device,
                                       std::int64_t stride) {
  const std::shared_ptr<const Samples> samples = split.samples();
  return gathered(
      made_ahead(std::make_unique<SampleSource>(places_of(samples), order),
                 experiment, device, stride),
      samples->input_store(order.augmented)->on(device),
      experiment.memory_format);
}

std::unique_ptr<Source> batches_to_train_on(const Experiment& experiment,
                                            int block,
                                            const c10::Device& device) {
  if (experiment.assist.is_on()) return assisted_source(experiment, block);
  const std::int64_t stride = experiment.replicas.of_block(block);
  const Split& split = experiment.data->train;
  return in_micro_batches(
      lie_on(experiment, device, {split}, /*augmented=*/true)
          ? gathered_there(experiment, split, training_order(experiment),
                           device, stride)
          : made_ahead(training_source(experiment), experiment, device, stride),
      experiment.micro_batches);
}

/// The validation split and the training part, where there are such, and then
/// the test split.
std::unique_ptr<Source> evaluation_source(const Experiment& experiment,
                                          const c10::Device& device) {
  const DataSet& data = *experiment.data;
  std::vector<Split> splits = {data.test};
  for (const Split& split : {data.training_part, data.validation})
    if (split.size() > 0) splits.push_back(split);
  const bool there = lie_on(experiment, device, splits, /*augmented=*/false);
  std::unique_ptr<Source> all;
  for (const Split& split : splits) {
    auto source = there
                      ? gathered_there(experiment, split,
                                       evaluation_order(experiment), device, 1)
                      : source_in_order(experiment, split);
    all = all ? chained(std::move(source), std::move(all)) : std::move(source);
  }
  return there ? std::move(all)
               : made_ahead(std::move(all), experiment, device, 1);
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
    sources.evaluation = evaluation_source(experiment, device);
  return sources;
}

}  // namespace sluice
