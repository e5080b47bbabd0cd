#include "experiments/runs/seats/assembly.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "experiments/config/tables/lengths.h"
#include "experiments/runs/checkpoints/public_names.h"
#include "experiments/runs/seats/devices.h"
#include "experiments/runs/seats/seat_sources.h"
#include "lib/base/by_block.h"
#include "lib/blocks/adapters.h"
#include "lib/boundaries/policies/top_loss.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/finite.h"
#include "lib/engines/control.h"
#include "lib/memory/allocator.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/gpu/current_device.h"
#include "lib/tensors/gpu/gpu_arithmetic.h"
#include "lib/tensors/gpu/out_of_memory.h"
#include "lib/workers/gradient_probe.h"

namespace sluice {
namespace {

Block block_of(const Experiment& experiment, int block,
               const c10::Device& device = c10::DeviceType::CPU) {
  const LayerRange range = by_block(experiment.ranges, block);
  return make_block(experiment.model, block, range.first, range.last,
                    experiment.seed, experiment.memory_format, device);
}

/// An end of a boundary for each phase; that of an earlier phase which says the
/// same goes on.
template <class End>
std::vector<std::shared_ptr<End>> ends_of(
    const Experiment& experiment, int boundary,
    const std::function<std::shared_ptr<End>(const MakeBoundary&,
                                             const BoundarySite&)>& make) {
  std::vector<std::shared_ptr<End>> ends;
  std::vector<std::pair<const BoundaryPolicy*, std::shared_ptr<End>>> made;
  for (const Boundaries& phase : experiment.phases) {
    const BoundaryPolicy& now = by_block(phase, boundary);
    auto found = std::find_if(made.begin(), made.end(), [&](const auto& each) {
      return each.first->config == now.config;
    });
    if (found == made.end())
      found = made.emplace(found, &now,
                           make(now.make, site_of(experiment, boundary)));
    ends.push_back(found->second);
  }
  return ends;
}

std::vector<std::shared_ptr<Lower>> lowers_of(const Experiment& experiment,
                                              int block) {
  if (block == experiment.blocks())
    return std::vector<std::shared_ptr<Lower>>(
        experiment.phases.size(),
        std::shared_ptr<Lower>(make_top_loss(experiment.loss.training)));
  return ends_of<Lower>(experiment, block,
                        [](const MakeBoundary& make, const BoundarySite& site) {
                          return std::shared_ptr<Lower>(make.lower(site));
                        });
}

std::vector<std::shared_ptr<Upper>> uppers_of(const Experiment& experiment,
                                              int block) {
  if (block == 1) return {};
  return ends_of<Upper>(experiment, block - 1,
                        [](const MakeBoundary& make, const BoundarySite& site) {
                          return std::shared_ptr<Upper>(make.upper(site));
                        });
}

SeatSettings settings_of(const Experiment& experiment, int block,
                         const std::string& checkpoint_folder, bool is_fed) {
  SeatSettings settings{
      .options = static_cast<const SeatOptions&>(experiment),
      .plans = experiment.plans,
      .turns = experiment.length.turns,
      .epochs = epochs_of(experiment),
      .evaluation_batches = experiment.length.evaluation_batches,
      .validation_batches = experiment.validation_batches,
      .training_batches = experiment.training_batches,
      .loss = experiment.loss.evaluation,
      .checkpoint_folder = checkpoint_folder,
      .optimizer = by_block(experiment.optimizers, block),
      .replicas = experiment.replicas.kind,
      .tells_losses = experiment.assist.is_on(),
      .status = experiment.tells_status,
      .patience = experiment.engine == Engine::processes
                      ? kSupervisedDeadline
                      : std::chrono::seconds(experiment.timeout_seconds)};
  // A caller that gives the batches wants the losses of a step when it is done.
  if (is_fed) settings.late_updates = 0;
  // The crew draws what happens when, by its own clock.
  if (experiment.engine == Engine::virtual_time) settings.options.traced = {};
  return settings;
}

}  // namespace

std::shared_ptr<MemoryAccount> memory_of_seat(const Experiment& experiment,
                                              int seat) {
  return std::make_shared<MemoryAccount>(experiment.seat_names().of(seat));
}

void prepare_process(const Experiment& experiment) {
  at::set_num_threads(static_cast<int>(experiment.threads));
  if (experiment.caching_allocator) install_allocator();
  if (uses_gpus(experiment)) set_gpu_arithmetic(experiment.gpu);
}

namespace {

std::unique_ptr<Seat> make_seat_on(const c10::Device& device,
                                   const Experiment& experiment, int seat,
                                   Ends ends, std::shared_ptr<Sink> sink,
                                   const RunFiles& files,
                                   std::shared_ptr<Observer> observer,
                                   std::shared_ptr<Source> fed) {
  const BlockPlan& plan = by_block(experiment.plans.front().blocks, seat);
  const int block = plan.block;
  const auto memory =
      ends.memory ? ends.memory : memory_of_seat(experiment, seat);
  const MemoryScope scope(*memory);
  SeatParts parts{.block = block_of(experiment, block, device),
                  .lowers = lowers_of(experiment, block),
                  .uppers = uppers_of(experiment, block)};
  parts.below = std::move(ends.below);
  parts.above = std::move(ends.above);
  parts.codecs_below = codecs_above(experiment, block - 1);
  parts.codecs_above = codecs_above(experiment, block);
  parts.site_below = codec_site(experiment, block - 1);
  parts.site_above = codec_site(experiment, block);
  parts.sink = std::move(sink);
  parts.memory = memory;
  parts.observer = std::move(observer);
  const bool is_fed = fed != nullptr;
  parts.sources = sources_of(experiment, plan, device, std::move(fed));
  parts.replicas = std::move(ends.replicas);
  auto made = std::make_unique<Seat>(
      seat, settings_of(experiment, block, files.checkpoints, is_fed),
      std::move(parts));
  set_first_weights(experiment, files, *made);
  return made;
}

}  // namespace

std::unique_ptr<Seat> make_seat(const Experiment& experiment, int seat,
                                Ends ends, std::shared_ptr<Sink> sink,
                                const RunFiles& files,
                                std::shared_ptr<Observer> observer,
                                std::shared_ptr<Source> fed) {
  const c10::Device device =
      ends.device ? *ends.device : device_of_seat(experiment, seat);
  const CurrentDevice on(device);
  try {
    return make_seat_on(device, experiment, seat, std::move(ends),
                        std::move(sink), files, std::move(observer),
                        std::move(fed));
  } catch (const c10::Error& error) {
    if (is_out_of_gpu_memory(error))
      throw out_of_gpu_memory(experiment.seat_names().of(seat), device, error);
    throw;
  }
}

std::shared_ptr<Observer> make_probe(const Experiment& experiment,
                                     std::shared_ptr<Sink> sink) {
  if (experiment.probe_every == 0) return nullptr;
  const auto layers = static_cast<std::int64_t>(experiment.model.layers.size());
  return std::make_shared<GradientProbe>(
      ProbeParts{.every = experiment.probe_every,
                 .layers = experiment.probe_layers,
                 .seed = experiment.seed,
                 .masks = experiment.masks,
                 .blocks = experiment.blocks(),
                 .replicas = static_cast<int>(experiment.replicas.count),
                 .model = make_block(experiment.model, 1, 0, layers - 1,
                                     experiment.seed, experiment.memory_format),
                 .training = training_source(experiment),
                 .sink = std::move(sink),
                 .loss = experiment.loss.training,
                 .precision = experiment.precision,
                 .memory_format = experiment.memory_format});
}

void check_weights(const Experiment& experiment, const std::string& path) {
  const auto [found, source] = find_weights(experiment, path);
  if (const std::string name = first_not_finite(found); !name.empty())
    throw UserError(
        "{}: tensor '{}' has NaN or infinite values: begin with another file",
        path, name);
  for (int number = 1; number <= experiment.blocks(); ++number) {
    const Block block = block_of(experiment, number);
    copy_by_name(found, without_missing_adapters(block.weights(), found),
                 source);
    copy_by_name(found, block.buffers(), source);
  }
}

void check_resumable(const Experiment& experiment, const RunFiles& files) {
  for (int seat = 1; seat <= experiment.started_seats(); ++seat)
    make_seat(experiment, seat, {}, nullptr, files);
}

std::string method_of(const Experiment& experiment) {
  std::string method;
  std::vector<std::string> seen;
  for (const Boundaries& phase : experiment.phases)
    for (const BoundaryPolicy& boundary : phase) {
      if (std::find(seen.begin(), seen.end(), boundary.name) != seen.end())
        continue;
      seen.push_back(boundary.name);
      method += (method.empty() ? "" : ", ") + boundary.name;
    }
  return method.empty() ? "backprop" : method;
}

}  // namespace sluice
