#include "experiments/assembly.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "experiments/data/prefetch.h"
#include "lib/base/memory_channel.h"
#include "lib/policies/top_loss.h"

namespace sluice {
namespace {

WorkerSettings settings_of(const Experiment& experiment, int block,
                           const std::string& checkpoint_folder) {
  return {.plan = experiment.plan,
          .seed = experiment.seed,
          .turns = experiment.length.turns,
          .turns_per_epoch = experiment.turns_per_epoch,
          .evaluation_batches = experiment.length.evaluation_batches,
          .log_every = experiment.log_every,
          .loss = experiment.loss,
          .precision = experiment.precision,
          .memory_format = experiment.memory_format,
          .checkpoint_folder = checkpoint_folder,
          .optimizer =
              experiment.optimizers.at(static_cast<std::size_t>(block) - 1)};
}

}  // namespace

std::unique_ptr<SampleSource> training_source(const Experiment& experiment) {
  return std::make_unique<SampleSource>(
      experiment.data->train.samples(),
      OrderOptions{.batch_size = experiment.batch_size,
                   .seed = experiment.seed,
                   .drop_last = experiment.drop_last});
}

std::unique_ptr<Worker> make_worker(const Experiment& experiment, int block,
                                    Ends ends, std::shared_ptr<Sink> sink,
                                    const std::string& checkpoint_folder) {
  const auto index = static_cast<std::size_t>(block) - 1;
  const LayerRange range = experiment.ranges.at(index);
  WorkerParts parts{.block = Block(block, range.first,
                                   make_layers(experiment.model, range.first,
                                               range.last, experiment.seed),
                                   experiment.memory_format),
                    .policy = block == experiment.blocks()
                                  ? make_top_loss(experiment.loss)
                                  : experiment.boundaries.at(index)(
                                        site_of(experiment, block))};
  parts.below = std::move(ends.below);
  parts.above = std::move(ends.above);
  parts.sink = std::move(sink);
  if (block == 1) {
    parts.training =
        prefetched(training_source(experiment), experiment.prefetch);
    parts.evaluation =
        prefetched(std::make_unique<SampleSource>(
                       experiment.data->test.samples(),
                       OrderOptions{.batch_size = experiment.batch_size,
                                    .shuffled = false}),
                   experiment.prefetch);
  }
  return std::make_unique<Worker>(
      settings_of(experiment, block, checkpoint_folder), std::move(parts));
}

std::vector<Ends> memory_ends(const Experiment& experiment) {
  std::vector<Ends> ends(static_cast<std::size_t>(experiment.blocks()));
  for (std::size_t boundary = 0; boundary + 1 < ends.size(); ++boundary) {
    const Capacity& capacity = experiment.capacities[boundary];
    auto [below, above] =
        memory_link(capacity.up, capacity.down,
                    std::chrono::seconds(experiment.timeout_seconds));
    ends[boundary].above = std::move(below);
    ends[boundary + 1].below = std::move(above);
  }
  return ends;
}

std::string method_of(const Experiment& experiment) {
  std::string method;
  std::vector<std::string> seen;
  for (const std::string& name : experiment.policy_names) {
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    seen.push_back(name);
    method += (method.empty() ? "" : ", ") + name;
  }
  return method.empty() ? "backprop" : method;
}

}  // namespace sluice
