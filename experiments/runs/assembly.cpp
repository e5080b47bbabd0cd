#include "experiments/runs/assembly.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <ATen/Parallel.h>

#include "experiments/config/assist_rules.h"
#include "experiments/data/assisted_source.h"
#include "experiments/data/chained.h"
#include "experiments/data/copied_ahead.h"
#include "experiments/data/label_pairs.h"
#include "experiments/data/prefetch.h"
#include "experiments/runs/devices.h"
#include "experiments/runs/neighbour_links.h"
#include "experiments/runs/repartition.h"
#include "experiments/runs/returned_replicas.h"
#include "lib/base/by_block.h"
#include "lib/base/memory_channel.h"
#include "lib/blocks/micro_batch_source.h"
#include "lib/boundaries/policies/top_loss.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/saved_deals.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/engines/control.h"
#include "lib/memory/allocator.h"
#include "lib/replicas/groups/memory.h"
#include "lib/replicas/groups/memory_centre.h"
#include "lib/tensors/current_device.h"
#include "lib/tensors/gpu_arithmetic.h"
#include "lib/tensors/out_of_memory.h"
#include "lib/tensors/staged_sender.h"
#include "lib/workers/gradient_probe.h"
#include "lib/workers/replicated.h"

namespace sluice {
namespace {

Block block_of(const Experiment& experiment, int block,
               const c10::Device& device = c10::DeviceType::CPU) {
  const LayerRange range = by_block(experiment.ranges, block);
  return make_block(experiment.model, block, range.first, range.last,
                    experiment.seed, experiment.memory_format, device);
}

/// Variables of the samples of another run, which counted other epochs, are no
/// weights.
bool is_of_samples(std::string_view name) {
  return name.starts_with("variables.");
}

/// The model's own weights must all be there; those of heads are taken when
/// they are.
void take_initial_weights(const std::string& path, Seat& seat) {
  const NamedTensors found = load_weights(path);
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : found) names.insert(name);
  NamedTensors wanted;
  for (auto& [name, tensor] : seat.weights())
    if (name.starts_with("layers.") ||
        (names.contains(name) && !is_of_samples(name)))
      wanted.emplace_back(name, tensor);
  copy_by_name(found, seat.copied(), path);
  copy_by_name(found, wanted, path);
}

/// Whether the seats go on with what each of them had.
bool has_own_seats(const Experiment& experiment,
                   const std::string& checkpoint) {
  const ReplicaSettings& replicas = experiment.replicas;
  if (deals_of(checkpoint).replicas != replicas.count ||
      counts_of(checkpoint) != replicas.counts)
    return false;
  // Which blocks a replica has depends on the cut.
  return !replicas.are_uneven() ||
         is_cut_so(experiment, cut_of({load_state(checkpoint), checkpoint}));
}

/// What the replicas are to agree on: the weights of the centre, where a moving
/// average stands for these in the checkpoint.
void take_centre_weights(const NamedTensors& state, NamedTensors& weights) {
  const NamedTensors centre = centre_weights_in(state);
  std::map<std::string_view, const at::Tensor*> by_name;
  for (const auto& [name, tensor] : centre) by_name[name] = &tensor;
  for (auto& [name, tensor] : weights)
    if (const auto found = by_name.find(name); found != by_name.end())
      tensor = *found->second;
}

/// With another cut, where it has one. Other replicas than those that were
/// saved all begin with what these agreed on, and the first one's state; so do
/// those that were lost.
void restore(const Experiment& experiment, const std::string& checkpoint,
             Seat& seat) {
  const std::set<int> returning = returning_replicas(experiment, checkpoint);
  const bool returns = returning.contains(seat.replica());
  const bool is_own = !returns && has_own_seats(experiment, checkpoint);
  NamedTensors weights = is_own ? load_own_weights(checkpoint, seat.replica())
                                : load_weights(checkpoint);
  NamedTensors state = is_own ? load_own_state(checkpoint, seat.replica())
                              : load_state(checkpoint);
  std::vector<std::int64_t> cut;
  // Otherwise it was looked at, and a replica may have some of the blocks only.
  if (!is_own || !experiment.replicas.are_uneven())
    cut = cut_of({state, checkpoint});
  if (returns) take_centre_weights(state, weights);
  const bool is_cut = !is_cut_so(experiment, cut);
  // What is under way is another replica's.
  if (is_cut || returns)
    state = state_for_block(experiment, seat.block(), state, checkpoint);
  if (is_cut) {
    // Sources of new boundaries begin beside the weights that were saved.
    copy_by_name(weights, seat.copied(), checkpoint);
    add_new_sources(experiment, cut, seat.weights(), weights);
    add_new_sources(experiment, cut, seat.state(), state);
  }
  const std::string source =
      seat.replica() == 1 || !is_own
          ? checkpoint
          : fmt::format("{}/replica-{}", checkpoint, seat.replica());
  seat.restore(weights, state, source);
  for (const int replica : returning) seat.rejoin(replica);
}

void set_first_weights(const Experiment& experiment, const RunFiles& files,
                       Seat& seat) {
  if (!files.resume.empty()) {
    restore(experiment, files.resume, seat);
  } else if (!experiment.initial_weights.empty()) {
    take_initial_weights(experiment.initial_weights, seat);
  }
}

/// An end of a boundary for each phase; one that says the same as the phase
/// before it goes on.
template <class End>
std::vector<std::shared_ptr<End>> ends_of(
    const Experiment& experiment, int boundary,
    const std::function<std::shared_ptr<End>(const MakeBoundary&,
                                             const BoundarySite&)>& make) {
  std::vector<std::shared_ptr<End>> ends;
  const BoundaryPolicy* before = nullptr;
  for (const Boundaries& phase : experiment.phases) {
    const BoundaryPolicy& now = by_block(phase, boundary);
    const bool goes_on = before && now.config == before->config;
    ends.push_back(goes_on ? ends.back()
                           : make(now.make, site_of(experiment, boundary)));
    before = &now;
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

bool forwards_data(const RunPlan& plan, int block) {
  return by_block(plan.blocks, block).forwards_data();
}

SeatSettings settings_of(const Experiment& experiment, int block,
                         const std::string& checkpoint_folder, bool is_fed) {
  SeatSettings settings{
      .options = static_cast<const SeatOptions&>(experiment),
      .plans = experiment.plans,
      .turns = experiment.length.turns,
      .turns_per_epoch = experiment.turns_per_epoch,
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
  // Who gives the batches asks for the losses of a step when it is done.
  if (is_fed) settings.late_updates = 0;
  // The crew draws what happens when, by its own clock.
  if (experiment.engine == Engine::virtual_time) settings.options.traced = {};
  return settings;
}

}  // namespace

namespace {

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

/// For a block on a GPU they are copied there ahead, too.
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
  parts.codec_below = codec_above(experiment, block - 1);
  parts.codec_above = codec_above(experiment, block);
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
  const NamedTensors found = load_weights(path);
  for (int number = 1; number <= experiment.blocks(); ++number) {
    const Block block = block_of(experiment, number);
    copy_by_name(found, block.parameters(), path);
    copy_by_name(found, block.buffers(), path);
  }
}

void check_resumable(const Experiment& experiment, const RunFiles& files) {
  for (int seat = 1; seat <= experiment.seats(); ++seat)
    make_seat(experiment, seat, {}, nullptr, files);
}

namespace {

/// Batches before it were applied by all blocks that were saved.
std::int64_t first_batch_in(const SavedState& saved) {
  std::int64_t first_batch = 0;
  for (const std::int64_t block : saved.numbers_below("workers")) {
    const std::string name = fmt::format("workers.{}.first_batch", block);
    if (saved.has(name))
      first_batch = std::max(first_batch, saved.number(name));
  }
  return first_batch;
}

/// Whether the plan's block left such batches in flight: its schedule, its
/// delay, and what its backward needs, are those of the block that was saved.
bool fits_in_flight(const BlockPlan& plan, const SavedState& saved) {
  const auto count = [&](const char* of) {
    return std::ssize(
        saved.numbers_below(fmt::format("{}.{}", of, plan.block)));
  };
  const std::string me = fmt::format("workers.{}.", plan.block);
  const bool is_free = plan.in_flight > 0;
  if (saved.has(me + "in_flight") != is_free || !saved.has(me + "weights") ||
      saved.number(me + "weights") != number_of(plan.weights))
    return false;
  if (is_free) return count("flights") + count("lessons") < plan.in_flight;
  const std::int64_t in_turn = plan.micro_batches.in_turn();
  return count("flights") <= plan.delay * in_turn &&
         count("lessons") <= (turns_in_flight(plan) - plan.delay) * in_turn;
}

}  // namespace

InFlight in_flight_in(const std::string& checkpoint) {
  const SavedState saved(load_state(checkpoint), checkpoint);
  return in_flight_in(saved);
}

InFlight in_flight_in(const SavedState& saved) {
  InFlight found;
  std::set<std::int64_t> batches;
  for (const char* of : {"flights", "lessons"})
    for (const std::int64_t block : saved.numbers_below(of))
      for (const std::int64_t batch :
           saved.numbers_below(fmt::format("{}.{}", of, block)))
        batches.insert(batch);
  found.batches = std::ssize(batches);
  const std::int64_t first_batch = first_batch_in(saved);
  for (const std::int64_t block : saved.numbers_below("accumulated")) {
    const std::string name = fmt::format("accumulated.{}.", block);
    if (saved.number(name + "first_batch") >= first_batch)
      found.accumulated =
          std::max(found.accumulated, saved.number(name + "batches"));
  }
  return found;
}

Continued continued_from(const Experiment& experiment,
                         const std::string& checkpoint) {
  const SavedState saved(load_state(checkpoint), checkpoint);
  Continued from{.first_batch = first_batch_in(saved)};
  if (saved.has("workers.1.phase"))
    from.phase = saved.number("workers.1.phase");
  if (from.phase >= std::ssize(experiment.plans))
    throw UserError(
        "{}: was saved in phase {} of its timetable, which has {} "
        "here",
        checkpoint, from.phase, experiment.plans.size());
  const bool are_same_replicas =
      deals_in(saved, "workers.1").replicas == experiment.replicas.count &&
      counts_in(saved, "workers.1") == experiment.replicas.counts;
  const InFlight in_flight = in_flight_in(saved);
  const bool is_same_cut = is_cut_so(experiment, cut_of(saved));
  const RunPlan& plan = experiment.plans[static_cast<std::size_t>(from.phase)];
  const bool fits = is_same_cut && are_same_replicas &&
                    std::all_of(plan.blocks.begin(), plan.blocks.end(),
                                [&](const BlockPlan& block) {
                                  return fits_in_flight(block, saved);
                                });
  if (in_flight.batches > 0 && !fits)
    throw UserError(
        "{}: {} of its batches are in flight between the blocks of its own "
        "cut, policies and replicas; continue with those, or apply the batches "
        "first: sluice checkpoint RUN --drain",
        checkpoint, in_flight.batches);
  if (in_flight.accumulated > 0 && !(is_same_cut && are_same_replicas))
    throw UserError(
        "{}: its blocks have accumulated {} batches towards an update, and "
        "another cut, or another number of replicas, can't take them over; "
        "continue with its own to a turn where a window of accumulate.batches "
        "is full",
        checkpoint, in_flight.accumulated);
  return from;
}

namespace {

/// What a GPU sends to a CPU is copied as it is sent: later the copy would be
/// behind what the GPU has got to do by then. Between GPUs it stays there.
void stage_for_cpu(const Experiment& experiment, int from, int to, Link& link) {
  if (is_on_gpu(experiment, from) && !is_on_gpu(experiment, to))
    link.sender = staged_sender(std::move(link.sender));
}

/// What is between two seats, for both.
std::pair<Link, Link> link_for(const Experiment& experiment,
                               const SeatPair& seats, Capacity capacity) {
  const std::vector<BlockPlan>& plans = experiment.plans.front().blocks;
  // Messages into a replay buffer arrive in virtual time, and a dropped one
  // has been sent all the same: the seat fetches them later, so the channel
  // must hold all.
  const bool waits_for_its_time =
      !by_block(plans, seats.upper).inbox_below.is_plain();
  if (waits_for_its_time && experiment.engine == Engine::virtual_time)
    capacity.up = std::numeric_limits<std::size_t>::max();
  auto [below, above] =
      memory_link(capacity.up, capacity.down,
                  std::chrono::seconds(experiment.timeout_seconds));
  const int block = by_block(plans, seats.lower).block;
  stage_for_cpu(experiment, block, block + 1, below);
  stage_for_cpu(experiment, block + 1, block, above);
  return {std::move(below), std::move(above)};
}

void add_groups(const Experiment& experiment, std::vector<Ends>& ends) {
  const RunPlan& plan = experiment.plans.front();
  for (int block = 1; block <= experiment.blocks(); ++block) {
    const int replicas = replicas_of(plan, block);
    if (replicas == 1) continue;
    auto group =
        memory_group(replicas, std::chrono::seconds(experiment.timeout_seconds),
                     fmt::format("block {}", block));
    for (int replica = 1; replica <= replicas; ++replica)
      by_block(ends, seat_of(plan, block, replica)).replicas.group =
          std::move(by_block(group, replica));
  }
}

/// They may be as far apart as they like.
void add_centres(const Experiment& experiment, std::vector<Ends>& ends) {
  const int replicas = static_cast<int>(experiment.replicas.count);
  for (int block = 1; block <= experiment.blocks(); ++block) {
    auto links = memory_centre(replicas, kSupervisedDeadline,
                               fmt::format("block {}", block));
    for (int replica = 1; replica <= replicas; ++replica)
      by_block(ends, (replica - 1) * experiment.blocks() + block)
          .replicas.centre = std::move(by_block(links, replica));
  }
}

}  // namespace

std::vector<Ends> memory_ends(const Experiment& experiment) {
  const RunPlan& plan = experiment.plans.front();
  std::vector<std::map<int, Link>> below(plan.blocks.size());
  std::vector<std::map<int, Link>> above(plan.blocks.size());
  const std::vector<SeatPair> pairs = links_of(plan);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [lower, upper] = pairs[i];
    if (by_block(plan.blocks, lower).block == experiment.blocks()) continue;
    auto [of_lower, of_upper] =
        link_for(experiment, pairs[i], experiment.capacities.at(i));
    by_block(above, lower)[upper] = std::move(of_lower);
    by_block(below, upper)[lower] = std::move(of_upper);
  }
  std::vector<Ends> ends(plan.blocks.size());
  for (int seat = 1; seat <= std::ssize(ends); ++seat) {
    Ends& its = by_block(ends, seat);
    its.below = link_to_neighbours(plan, seat, Towards::below,
                                   std::move(by_block(below, seat)));
    its.above = link_to_neighbours(plan, seat, Towards::above,
                                   std::move(by_block(above, seat)));
  }
  if (experiment.plans.front().blocks.front().exchange.served)
    add_centres(experiment, ends);
  else if (experiment.replicas.count > 1)
    add_groups(experiment, ends);
  return ends;
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
