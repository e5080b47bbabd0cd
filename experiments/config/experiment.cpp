#include "experiments/config/experiment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/assist_rules.h"
#include "experiments/config/files/interpolation.h"
#include "experiments/config/free_schedule_rules.h"
#include "experiments/config/left_out.h"
#include "experiments/config/per_block_tables.h"
#include "experiments/config/pinned_files.h"
#include "experiments/config/plugin_keys.h"
#include "experiments/config/target_rules.h"
#include "experiments/data/data_sets.h"
#include "experiments/data/label_noise.h"
#include "experiments/data/limits.h"
#include "experiments/data/mixup.h"
#include "experiments/data/sample_order.h"
#include "experiments/data/training_part.h"
#include "lib/base/by_block.h"
#include "lib/base/plug_in.h"
#include "lib/schedules/capacities.h"
#include "lib/schedules/free_running.h"
#include "lib/tensors/device.h"
#include "lib/weights/weight_view.h"
#include "modules/models.h"
#include "transport/meeting/transports.h"

namespace sluice {
namespace {

std::int64_t deals_of(double epochs, const Experiment& experiment) {
  return std::llround(epochs * static_cast<double>(experiment.deals_per_epoch));
}

/// Turns that so many epochs take.
std::int64_t turns_in(double epochs, const Experiment& experiment) {
  if (epochs == 0) return 0;
  return std::max<std::int64_t>(
      1, deals_of(epochs, experiment) / experiment.replicas.count);
}

/// Turns from the begin of the run to the end of so many epochs.
std::int64_t turns_until(double epochs, const Experiment& experiment) {
  if (epochs == 0) return 0;
  return std::max<std::int64_t>(
      1, experiment.replicas.deals().turn_after(deals_of(epochs, experiment)));
}

void read_data(Fields& top, const std::string& data_root,
               Experiment& experiment) {
  top.section("data", "the data set", [&](Fields& fields) {
    std::string root = data_root;
    std::string name = "drawn_digits";
    const MakeDataSet make =
        choose(fields, "name", data_sets(), name, "data set").make(fields);
    fields.key("root", root,
               {.text = "folder of the data files; default: the environment "
                        "variable SLUICE_DATA"});
    fields.key("prefetch", experiment.prefetch,
               {.text = "batches that a separate thread prepares ahead while "
                        "the model computes; 0: none",
                .unit = "batches",
                .min = 0,
                .max = 1024});
    LabelNoise noise;
    noise.describe(fields);
    Mixup mixup;
    mixup.describe(fields);
    TrainingPart part;
    part.describe(fields);
    experiment.assist.describe(fields);
    // The training part is one of what is trained on.
    const DataSet trained = with_limits(with_label_noise(make(root), noise),
                                        {.train = experiment.limit.train});
    experiment.data = std::make_shared<const DataSet>(
        with_limits(with_training_part(with_mixup(trained, mixup), part),
                    {.evaluation = experiment.limit.evaluation}));
  });
}

/// Where the layers are those of a program, and this isn't it.
void refuse_layers_of_others(const Fields& fields, const std::string& name) {
  const std::vector<std::string> known = names_of(models());
  if (name == kOwnModel &&
      std::find(known.begin(), known.end(), name) == known.end())
    fields.reject("name",
                  "'own' are the layers of the program that run.json names: "
                  "give this command to it, instead of to sluice");
}

void read_model(Fields& top, Experiment& experiment) {
  top.section("model", "the network", [&](Fields& fields) {
    std::string name = "mlp";
    try {
      experiment.model = choose(fields, "name", models(), name, "model")
                             .make(fields)(experiment.data->sample);
    } catch (const UserError&) {
      refuse_layers_of_others(fields, name);
      throw;
    }
  });
  if (experiment.model.draw) experiment.model.draw(experiment.seed);
}

void append(const std::vector<std::string>& lines,
            std::vector<std::string>& all) {
  all.insert(all.end(), lines.begin(), lines.end());
}

/// The config says `[boundary]` for all and `[boundary.2]` for one; how many
/// there are is known only when the model has been cut. So `path` is taken from
/// the top as it is written, made explicit, and read on its own.
void read_numbered(Fields& top, std::string_view path, std::int64_t count,
                   const NumberedKeys& keys, Experiment& experiment,
                   void (*describe_one)(Fields&, Experiment&)) {
  ConfigNode written;
  top.key(path, written, "table",
          {.text = "keys for all, or in a numbered table for one; the last one "
                   "is also called `last`"});
  const ConfigNode* table = written.value.index() == 0 ? nullptr : &written;
  const auto [tables, ignored] = per_block_tables(table, count, keys, path);
  append(ignored, experiment.left_out);
  Fields fields(&tables, std::string(path));
  std::vector<DroppedKey> dropped;
  const auto written_as = [&](const std::string& text, std::int64_t number) {
    return as_written(text, table, path, number, count);
  };
  for (std::int64_t number = 1; number <= count; ++number) {
    try {
      fields.section(std::to_string(number), "",
                     [&](Fields& part) { describe_one(part, experiment); });
    } catch (const UnknownKey& error) {
      throw UnknownKey(written_as(error.place(), number), error.hint(),
                       error.rest(), error.path());
    } catch (const UserError& error) {
      throw UserError("{}", written_as(error.what(), number));
    }
    for (const DroppedKey& key :
         std::span(fields.dropped()).subspan(dropped.size()))
      dropped.push_back({written_as(key.path, number), key.place,
                         written_as(key.by, number)});
  }
  fields.finish();
  append(lines_of(dropped), experiment.left_out);
  if (count == 0) {  // no boundary: what holds for all is checked all the same
    Experiment unused = experiment;
    const ConfigNode one = per_block_tables(table, 1, keys, path).tables;
    Fields check(&one, std::string(path));
    check.section("1", "", [&](Fields& part) { describe_one(part, unused); });
  }
  experiment.resolved.set(path, fields.resolved());
  // The manual describes number 1 in the form that holds for all.
  const std::string first = std::string(path) + ".1.";
  for (KeyDoc key : fields.manual()) {
    if (!key.path.starts_with(first)) continue;
    key.path.erase(path.size(), 2);
    experiment.manual.push_back(std::move(key));
  }
}

void add_policies(Experiment& experiment) {
  std::vector<PolicyRow>& rows = experiment.policies;
  for (const PolicyRow& row : policies()) {
    for (const PolicyRow& own : rows)
      if (own.name == row.name)
        throw UserError("policy '{}' is built in; give yours another name",
                        own.name);
    rows.push_back(row);
  }
}

/// A compressor remembers what it left out for the next gradient of the same
/// weights, and at a boundary the next batch has other samples.
void refuse_compressor(const Fields& fields, const std::string& codec) {
  const std::vector<std::string> names = names_of(compressors());
  const bool is_one =
      std::find(names.begin(), names.end(), codec) != names.end();
  if (is_one && codec != "none")
    fields.reject("codec",
                  fmt::format("'{}' compresses the gradients that replicas "
                              "exchange (replicas.compress): it remembers what "
                              "it leaves out for the next one, and at a "
                              "boundary the next batch has other samples; "
                              "codecs are: {}",
                              codec, joined(names_of(codecs()))));
}

std::shared_ptr<const Codec> read_codec(Fields& fields) {
  std::string codec = "none";
  try {
    return choose(fields, "codec", codecs(), codec, "codec",
                  /*has_options=*/false)
        .make();
  } catch (const UserError&) {
    refuse_compressor(fields, codec);
    throw;
  }
}

void read_boundary(Fields& fields, Experiment& experiment) {
  experiment.codecs.push_back(read_codec(fields));
  experiment.phases.front().push_back(read_policy(fields, experiment.policies));
}

void read_optimizer(Fields& fields, Experiment& experiment) {
  OptimizerOptions options;
  options.last_layer =
      fmt::format("layers.{}.", experiment.model.layers.size() - 1);
  options.describe(fields);
  experiment.optimizers.push_back(std::move(options));
}

void for_each_policy(const Experiment& experiment,
                     const std::function<void(const std::string&)>& check) {
  for (const Boundaries& phase : experiment.phases)
    for (const BoundaryPolicy& boundary : phase) check(boundary.name);
}

bool wants_model_norm(const Experiment& experiment, const Fields& top) {
  const auto wants = [](const OptimizerOptions& options) {
    return options.clip_norm > 0 && options.clip_scope == ClipScope::model;
  };
  const auto count = std::count_if(experiment.optimizers.begin(),
                                   experiment.optimizers.end(), wants);
  if (count == 0) return false;
  const bool all_alike = std::all_of(
      experiment.optimizers.begin(), experiment.optimizers.end(),
      [&](const OptimizerOptions& options) {
        return wants(options) &&
               options.clip_norm == experiment.optimizers[0].clip_norm;
      });
  if (!all_alike)
    top.reject("optimizer",
               "clip.scope = 'model' must hold for all blocks, with one norm");
  for_each_policy(experiment, [&](const std::string& policy) {
    if (policy != "backprop")
      top.reject("optimizer",
                 "clip.scope = 'model' needs backprop at every boundary; use "
                 "clip.scope = 'block'");
  });
  return true;
}

/// Some models can't be cut for gradients.
void check_policies(const Experiment& experiment, const Fields& top) {
  const std::string& why = experiment.model.needs_backprop;
  if (why.empty()) return;
  for_each_policy(experiment, [&](const std::string& policy) {
    if (policy != "backprop")
      top.reject("boundary",
                 fmt::format("every boundary must have the policy 'backprop', "
                             "not '{}': {}",
                             policy, why));
  });
}

double parameter_bytes(const Experiment& experiment, const LayerRange& range) {
  double bytes = 0;
  for (std::int64_t i = range.first; i <= range.last; ++i) {
    const auto layer =
        experiment.model.layers.at(static_cast<std::size_t>(i)).make();
    for (const auto& parameter : layer->parameters())
      bytes += static_cast<double>(parameter.nbytes());
  }
  return bytes;
}

/// What the replicas of a block send of them in a round of an exchange.
double exchanged_bytes(const Experiment& experiment, const LayerRange& range) {
  const CompressorKind& compressor = experiment.replicas.kind.compressor;
  if (!compressor.bytes) return parameter_bytes(experiment, range);
  std::vector<TensorSizes> sizes;
  for (std::int64_t i = range.first; i <= range.last; ++i) {
    const auto layer =
        experiment.model.layers.at(static_cast<std::size_t>(i)).make();
    for (const auto& parameter : layer->parameters())
      sizes.push_back(parameter.sizes().vec());
  }
  return compressor.bytes(sizes);
}

bool has_batch_norm(const Experiment& experiment, const LayerRange& range) {
  for (std::int64_t i = range.first; i <= range.last; ++i) {
    const auto layer =
        experiment.model.layers.at(static_cast<std::size_t>(i)).make();
    for (const auto& buffer : layer->named_buffers())
      if (buffer.key().ends_with("running_mean")) return true;
  }
  return false;
}

bool has_batch_norm(const Experiment& experiment) {
  return std::any_of(experiment.ranges.begin(), experiment.ranges.end(),
                     [&](const LayerRange& range) {
                       return has_batch_norm(experiment, range);
                     });
}

bool is_reversible(const Experiment& experiment, const LayerRange& range) {
  for (std::int64_t i = range.first; i <= range.last; ++i)
    if (!experiment.model.layers.at(static_cast<std::size_t>(i))
             .make()
             ->is_reversible())
      return false;
  return true;
}

/// A block with a layer that has no inverse keeps its inputs: nothing is to
/// come back for it.
void keep_what_has_no_inverse(const Experiment& experiment, RunPlan& plan) {
  for (std::size_t i = 0; i + 1 < plan.blocks.size(); ++i) {
    BlockPlan& block = plan.blocks[i];
    if (!block.weights.rebuilds ||
        is_reversible(experiment, by_block(experiment.ranges, block.block)))
      continue;
    block.weights.rebuilds = false;
    plan.blocks[i + 1].returns_input = false;
  }
}

/// Whether replicas come to a centre when they are ready.
bool has_centres(const Experiment& experiment) {
  return experiment.free_schedule && experiment.replicas.count > 1 &&
         experiment.replicas.kind.make_centre != nullptr;
}

/// What the replicas of each block sum, and when.
ReplicaExchange exchange_of(const Experiment& experiment) {
  const ReplicaKind& kind = experiment.replicas.kind;
  ReplicaExchange exchange = kind.exchange;
  exchange.graph.seed = experiment.seed;
  exchange.served = has_centres(experiment);
  if (experiment.replicas.count > 1) {
    exchange.adopts = turns_in(kind.adopt_every, experiment);
    exchange.agrees =
        exchange.agrees || (kind.mean_statistics && has_batch_norm(experiment));
  }
  return exchange;
}

/// A replay forwards a batch twice: whether BatchNorm's running statistics see
/// it twice changes what an evaluation says, so nobody should guess.
void check_statistics(const Experiment& experiment, const BlockPlan& block,
                      const Fields& top) {
  const bool replays = block.delay > 0 && block.weights.replays();
  if (!replays || block.statistics) return;
  const auto index = static_cast<std::size_t>(block.block) - 1;
  if (has_batch_norm(experiment, experiment.ranges.at(index)))
    top.reject("boundary",
               fmt::format("block {} has BatchNorm and forwards every batch "
                           "twice: say with boundary.{}.statistics = "
                           "\"forward\", \"replay\" or \"both\" which pass "
                           "moves its running statistics",
                           block.block, block.block));
}

/// Whether the weights of the forward are there when a correction wants them.
void check_correction(const Experiment& experiment, const BlockPlan& block,
                      const Fields& top) {
  const auto index = static_cast<std::size_t>(block.block) - 1;
  if (!experiment.optimizers.at(index).wants_forward_weights) return;
  const std::vector<std::int64_t>& turns = experiment.accumulate_by_phase;
  if (*std::max_element(turns.begin(), turns.end()) > 1 || block.accumulate > 1)
    top.reject("optimizer",
               "correction 'delay_compensation' corrects one batch by itself: "
               "it can't go with accumulate.batches above 1");
  if (block.delay > 0 && block.weights.replays())
    top.reject("optimizer",
               fmt::format("correction 'delay_compensation' has nothing to "
                           "correct in block {}, which takes its gradients at "
                           "the present weights; it is for weights = 'stash'",
                           block.block));
}

/// What predicts weights has an optimizer with a velocity, and no correction
/// that makes up for the same delay again.
void check_view(const Experiment& experiment, const BlockPlan& block,
                const Fields& top) {
  if (!block.sees_old_weights()) return;
  const auto index = static_cast<std::size_t>(block.block) - 1;
  try {
    check_weight_view(block.weights, experiment.optimizers.at(index));
  } catch (const UserError& error) {
    top.reject("optimizer",
               fmt::format("block {}: {}", block.block, error.what()));
  }
  const bool has_head =
      std::any_of(block.parts.begin(), block.parts.end(),
                  [](const GradientPart& part) { return part.own; });
  if (has_head && block.gradient_from_above &&
      !experiment.optimizers.at(index).correction.empty())
    top.reject("optimizer",
               fmt::format("block {} has a loss of its own, whose gradient is "
                           "never stale, beside one that is: a correction "
                           "would change both; leave it out there",
                           block.block));
}

void check_plan(const Experiment& experiment, const RunPlan& plan,
                const Fields& top) {
  for (const BlockPlan& block : plan.blocks) check_view(experiment, block, top);
  for (const BlockPlan& block : plan.blocks)
    check_statistics(experiment, block, top);
  for (const BlockPlan& block : plan.blocks)
    check_correction(experiment, block, top);
  for (const BlockPlan& block : plan.blocks)
    if (block.delay > 0 && block.weights.of_today &&
        !block.weights.forwards_again &&
        experiment.precision == Precision::bf16)
      top.reject(
          "precision",
          fmt::format("bf16 can't go with weights = '{}' above block {}: "
                      "its graphs hold bf16 copies of the weights, so "
                      "it would silently be 'stash'",
                      block.weights.view, block.block));
}

/// What is kept of a sample must be of the same sample when it comes again.
void check_sample_ids(const Experiment& experiment, int block) {
  if (!experiment.data)
    throw UserError(
        "boundary {}: its policy keeps something of every sample, and batches "
        "that are fed in have no samples with numbers",
        block);
  if (experiment.data->varies)
    throw UserError(
        "boundary {}: its policy keeps something of every sample, which must "
        "be the same in every epoch: leave out data.augment and data.mixup "
        "(windows of a text move too)",
        block);
  if (experiment.replicas.count > 1)
    throw UserError(
        "boundary {}: its policy keeps something of every sample, and replicas "
        "don't see the same ones in every epoch: set replicas.count = 1",
        block);
}

void check_attachments(const Experiment& experiment, int block,
                       const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == kSampleIds)
      check_sample_ids(experiment, block);
    else if (name != kRawInput)
      throw UserError(
          "boundary {}: a batch has no attachment '{}'; there are: {}, {}",
          block, name, kRawInput, kSampleIds);
  }
}

Plans plans_of(const Experiment& experiment, bool model_norm) {
  const PipelineSettings& pipeline = experiment.pipeline;
  Plans plans;
  for (std::size_t i = 0; i < experiment.phases.size(); ++i) {
    const Boundaries& phase = experiment.phases[i];
    std::vector<Traits> traits;
    for (int block = 1; block < experiment.blocks(); ++block) {
      const MakeBoundary& make =
          phase[static_cast<std::size_t>(block) - 1].make;
      const BoundarySite site = site_of(experiment, block);
      traits.push_back(make.lower(site)->traits());
      check_attachments(experiment, block, traits.back().attachments);
      // Whether it can be made.
      if (traits.back().upper != UpperEnd::plain) make.upper(site);
    }
    RunPlan one = experiment.schedule_row().make(
        traits, {.model_norm = model_norm,
                 .accumulate = experiment.accumulate_by_phase.at(i),
                 .micro_batches = experiment.micro_batches,
                 .window_weights = pipeline.weights,
                 .flush = pipeline.flush,
                 .recompute = pipeline.recompute,
                 .executors = static_cast<int>(pipeline.executors),
                 .in_flight = experiment.in_flight,
                 .priority = experiment.priority,
                 .accumulate_by_block = experiment.accumulate_by_block});
    keep_what_has_no_inverse(experiment, one);
    plans.push_back(with_replicas(
        one, static_cast<int>(experiment.replicas.count),
        exchange_of(experiment), experiment.replicas.kind.stagger));
    for (BlockPlan& block : plans.back().blocks)
      block.micro_batches.deals = experiment.replicas.deals();
  }
  return plans;
}

std::int64_t threads_for(std::int64_t blocks) {
  return std::max<std::int64_t>(
      1, std::int64_t{std::thread::hardware_concurrency()} / blocks);
}

std::int64_t evaluation_batches_of(const Split& split,
                                   std::int64_t batch_size) {
  if (split.size() == 0) return 0;
  return SampleOrder(split.size(),
                     {.batch_size = batch_size, .shuffled = false})
      .batches_per_epoch();
}

/// A step of an optimizer is by the gradients of all replicas, or by one's.
std::int64_t samples_per_step(const Experiment& experiment) {
  const ReplicaSettings& replicas = experiment.replicas;
  return replicas.kind.exchange.leaves_them_apart()
             ? experiment.batch_size
             : experiment.batch_size * replicas.count;
}

/// What the keys mean in turns, now that the data is known.
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
                          ? saving.every_turns
                          : turns_in(saving.every, experiment);
  RunLength& length = experiment.length;
  length.turns = experiment.turns > 0
                     ? experiment.turns
                     : turns_until(experiment.epochs, experiment);
  length.evaluate_every = turns_in(experiment.evaluate_every, experiment);
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

std::vector<std::string> devices_of(const ConfigNode& device, int blocks,
                                    const Fields& top) {
  std::vector<std::string> names;
  if (const auto* name = std::get_if<std::string>(&device.value)) {
    names.assign(static_cast<std::size_t>(blocks), *name);
  } else if (const auto* list = std::get_if<ConfigNode::Array>(&device.value)) {
    for (const ConfigNode& item : *list)
      if (const auto* one = std::get_if<std::string>(&item.value))
        names.push_back(*one);
  }
  if (std::ssize(names) != blocks)
    top.reject("device", fmt::format("is a name, or a list of one name for "
                                     "each of the {} blocks",
                                     blocks));
  for (const std::string& name : names) check_device_name(name);
  return names;
}

/// What the keys mean for these blocks.
void derive_for_blocks(const Fields& top, Experiment& experiment) {
  experiment.devices = devices_of(experiment.device, experiment.blocks(), top);
  const std::int64_t executors = experiment.pipeline.executors;
  if (experiment.threads == 0)
    experiment.threads =
        threads_for((executors > 0 ? executors : experiment.blocks()) *
                    experiment.replicas.count);
}

void cut_turns(const Fields& top, Experiment& experiment) {
  const std::int64_t count = experiment.pipeline.micro_batches;
  if (count == 1) return;
  const std::int64_t samples = experiment.batch_size;
  if (samples % count != 0)
    top.reject("pipeline",
               fmt::format("{} micro_batches can't be made of batch_size = {}: "
                           "it must be a multiple of them",
                           count, samples));
  if (experiment.probe_every > 0)
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

void check_reconnect(const Settings& settings, const Fields& top) {
  if (settings.reconnect_seconds > 0 && settings.transport != kAutoTransport &&
      !transport_of(settings.transport).reconnects)
    top.reject(
        "reconnect",
        fmt::format("over transport = '{}' a connection breaks only with "
                    "its process: set transport = 'tcp' or 'tls', or "
                    "leave it out",
                    settings.transport));
  if (settings.reconnect_seconds >=
      static_cast<double>(settings.timeout_seconds))
    top.reject("reconnect",
               fmt::format("must be shorter than timeout = {}, after which a "
                           "worker that isn't heard is given up",
                           settings.timeout_seconds));
}

void check_schedules(const Fields& top, const Experiment& experiment) {
  for (const OptimizerOptions& options : experiment.optimizers) {
    const LearningRate& rate = options.learning_rate;
    const bool by_epoch = (rate.warmup_epochs > 0 && rate.warmup_turns == 0) ||
                          depends_on_epochs(rate.schedule);
    if (by_epoch && !top.has("turns_per_epoch"))
      top.reject("optimizer",
                 "a schedule in epochs needs `turns_per_epoch`: only your loop "
                 "knows how long an epoch is");
    if (rate.for_batch > 0)
      top.reject("optimizer",
                 "lr_for_batch is for `sluice run`: only your loop knows how "
                 "large its batches are");
    if (depends_on_end(rate.schedule) && !top.has("turns"))
      top.reject("optimizer",
                 fmt::format("schedule '{}' needs `turns`: only your loop "
                             "knows when it ends",
                             name_of(rate.schedule)));
  }
}

/// What `sluice run` decides by these keys, a loop of one's own does by itself.
constexpr const char* kLoopKeys[] = {
    "name",           "epochs",   "limit",      "batch_size",   "drop_last",
    "evaluate_every", "drain",    "checkpoint", "early_stop",   "allocator",
    "timetable",      "probe",    "barrier",    "virtual",      "schedule",
    "in_flight",      "priority", "hashes",     "on_failure",   "restarts",
    "on_nan",         "trace",    "forecast",   "equal_builds", "pipeline",
    "replicas",       "logger"};

/// Those that a loop with a run folder may have.
constexpr const char* kKeysOfOwnRun[] = {"name", "checkpoint", "trace",
                                         "hashes"};

bool is_of_own_run(std::string_view key) {
  return std::find(std::begin(kKeysOfOwnRun), std::end(kKeysOfOwnRun), key) !=
         std::end(kKeysOfOwnRun);
}

void refuse_loop(const Fields& top, const OwnNetwork& network) {
  for (const char* key : kLoopKeys) {
    if (!top.has(key)) continue;
    if (!is_of_own_run(key))
      top.reject(key, "is for `sluice run`; here your own loop decides it");
    if (!network.writes_run)
      top.reject(key,
                 "is of a run folder, and this network writes none: give "
                 "NetworkOptions::run a folder");
  }
}

/// What is in the folder of a run whose loop is a program's own.
void refuse_own_loop(const Fields& top) {
  if (top.has("own_loop"))
    top.reject("own_loop",
               "the layers and batches of this run are those of the program "
               "that run.json names: report, watch, checkpoint and export read "
               "its folder, and nothing here can train or evaluate it");
}

/// A block above an unlock opens the data itself, but a training loop of the
/// user's own brings batches to block 1 alone.
void refuse_unlocked(const Fields& top, const Experiment& experiment) {
  for (const RunPlan& plan : experiment.plans)
    for (const BlockPlan& block : plan.blocks)
      if (block.forwards_data())
        top.reject(
            "boundary",
            "unlock is for `sluice run`, where every block has the data; "
            "leave it out here");
}

/// So that reading the resolved config gives the same network.
void leave_out_loop(const OwnNetwork& network, ConfigNode& resolved) {
  std::erase_if(std::get<ConfigNode::Table>(resolved.value),
                [&](const auto& item) {
                  if (network.writes_run && is_of_own_run(item.first))
                    return false;
                  return std::find(std::begin(kLoopKeys), std::end(kLoopKeys),
                                   item.first) != std::end(kLoopKeys);
                });
}

/// What a network's config says of the loop, for schedules and for its run.
void read_length(Fields& top, const OwnNetwork& network,
                 Experiment& experiment) {
  experiment.turns_per_epoch = 1;
  top.key("turns_per_epoch", experiment.turns_per_epoch,
          {.text = "how long an epoch is, for schedules of the learning rate",
           .unit = "turns",
           .min = 1,
           .max = 1e12});
  experiment.length.turns = experiment.turns > 0
                                ? experiment.turns
                                : std::numeric_limits<std::int64_t>::max();
  experiment.tells_status = network.writes_run;
  if (!network.writes_run) {
    experiment.traced = {};
    return;
  }
  bool own_loop = true;
  top.key("own_loop", own_loop,
          {.text = "a program's own loop gives the batches"});
  CheckpointSettings& saving = experiment.checkpoint;
  saving.keep.every =
      saving.every_turns > 0
          ? saving.every_turns
          : std::llround(saving.every *
                         static_cast<double>(experiment.turns_per_epoch));
}

/// Puts what was read apart from the top into the resolved config and the
/// manual, and what was derived in the place of what was written.
void finish_resolved(const Fields& top, Experiment& experiment) {
  ConfigNode resolved = top.resolved();
  // At the end, whether they were written or not: the same text when it is read
  // again.
  for (const char* path : {"boundary", "optimizer"}) {
    std::erase_if(std::get<ConfigNode::Table>(resolved.value),
                  [&](const auto& item) { return item.first == path; });
    resolved.set(path, *experiment.resolved.find(path));
  }
  resolved.set("blocks", to_config(experiment.ranges));
  resolved.set("threads", {.value = experiment.threads});
  experiment.resolved = without_references(std::move(resolved));
  std::vector<KeyDoc> manual = top.manual();
  manual.insert(manual.end(), experiment.manual.begin(),
                experiment.manual.end());
  experiment.manual = std::move(manual);
}

/// What the resolved config says of the boundary above block k, but for its
/// codec, which no timetable changes.
ConfigNode policy_config(const Experiment& experiment, int block) {
  ConfigNode config =
      *experiment.resolved.find("boundary")->find(std::to_string(block));
  std::erase_if(std::get<ConfigNode::Table>(config.value),
                [](const auto& item) { return item.first == "codec"; });
  return config;
}

/// The layer that has changed the number of blocks; 0: none has.
int layer_of_cut(const ConfigNode& cut) {
  const bool is_default = cut == Settings().cut;
  return cut.origin.replaces || !is_default ? cut.origin.layer : 0;
}

/// What a config says beside data and model. Returns its timetable.
Timetable read_rest(Fields& top, Experiment& experiment) {
  std::string loss = "cross_entropy";
  top.section("loss", "at the last block, and of heads that classify",
              [&](Fields& fields) {
                experiment.loss =
                    choose(fields, "name", losses(), loss, "loss").make(fields);
              });
  check_targets(experiment, loss, top);
  experiment.ranges = partition(experiment.cut, experiment.model);
  const int recut_in = layer_of_cut(experiment.cut);
  experiment.phases.emplace_back();
  read_numbered(top, "boundary", experiment.blocks() - 1,
                {.fresh = "policy", .shared = "codec", .recut_in = recut_in},
                experiment, read_boundary);
  read_numbered(top, "optimizer", experiment.blocks(),
                {.fresh = "name", .recut_in = recut_in}, experiment,
                read_optimizer);
  for (int k = 1; k < experiment.blocks(); ++k)
    experiment.phases.front()[static_cast<std::size_t>(k) - 1].config =
        policy_config(experiment, k);
  Timetable timetable = read_timetable(
      top, {std::move(experiment.phases.front()), experiment.accumulate},
      experiment.policies, recut_in);
  experiment.phases = timetable.phases;
  experiment.accumulate_by_phase = timetable.accumulate;
  top.finish();
  append(timetable.ignored, experiment.left_out);
  append(lines_of(timetable.dropped), experiment.left_out);
  append(lines_of(top.dropped()), experiment.left_out);
  check_policies(experiment, top);
  derive_for_blocks(top, experiment);
  return timetable;
}

/// Evaluations and checkpoints are of all blocks together.
void check_averages(const Experiment& experiment, const Fields& top) {
  const double average = experiment.optimizers.front().average;
  for (const OptimizerOptions& options : experiment.optimizers)
    if (options.average != average)
      top.reject("optimizer",
                 fmt::format("average must be the same for all blocks, not {} "
                             "here and {} there",
                             average, options.average));
  if (average > 0 && experiment.replicas.count > 1 &&
      experiment.replicas.kind.exchange.leaves_them_apart())
    top.reject("optimizer",
               fmt::format("average goes with replicas.policy = 'all_reduce': "
                           "with '{}' evaluations have what the replicas agree "
                           "on",
                           experiment.replicas.policy));
}

std::vector<BlockPlan> blocks_of_phases(const Experiment& experiment) {
  std::vector<BlockPlan> all;
  for (const RunPlan& plan : experiment.plans)
    all.insert(all.end(), plan.blocks.begin(), plan.blocks.end());
  return all;
}

/// What a replica can't do that knows of each tensor only its part.
void check_shards(const Experiment& experiment, const Fields& top) {
  if (!experiment.replicas.kind.exchange.shards) return;
  for (const OptimizerOptions& options : experiment.optimizers)
    if (options.wants_whole)
      top.reject(
          "replicas",
          fmt::format("shard = true goes with updates that treat each weight "
                      "alone, and {} doesn't: leave shard out",
                      options.correction == "spike_compensation"
                          ? "optimizer.correction = 'spike_compensation'"
                          : fmt::format("optimizer = '{}'", options.name)));
  for (const BlockPlan& block : blocks_of_phases(experiment))
    if (predicts(block.weights))
      top.reject("replicas",
                 fmt::format("weights = '{}' predicts all weights by the state "
                             "of the optimizer, of which with shard = true "
                             "each replica keeps a part: leave shard out",
                             block.weights.view));
}

/// Factors move by the batches of their own replica, and no exchange brings
/// them together; and which row of them a batch in flight has is in no
/// checkpoint.
void check_factors(const Experiment& experiment, const Fields& top) {
  for (std::size_t i = 0; i < experiment.plans.size(); ++i)
    for (int k = 1; k < experiment.blocks(); ++k) {
      if (by_block(experiment.phases[i], k).name != "nmf") continue;
      if (experiment.replicas.count > 1)
        top.reject("boundary",
                   fmt::format("the factors of nmf above block {} move by "
                               "themselves, and would be others in each "
                               "replica: set replicas.count = 1, or choose "
                               "another policy",
                               k));
      if (by_block(experiment.plans[i].blocks, k).delay > 0)
        top.reject("boundary",
                   fmt::format("the factors of nmf above block {} move before "
                               "a late gradient comes, and what a batch had of "
                               "them is in no checkpoint: choose policies "
                               "without a delay above it",
                               k));
    }
}

/// What counts on one step of the optimizer in an update.
void check_steps(const Experiment& experiment, const Fields& top) {
  const ReplicaKind& kind = experiment.replicas.kind;
  if (kind.exchange.what != Exchanged::gradients ||
      kind.exchange.graph.is_all())
    return;
  const std::string& policy = experiment.replicas.policy;
  const std::vector<BlockPlan> blocks = blocks_of_phases(experiment);
  const bool is_late = std::any_of(
      blocks.begin(), blocks.end(),
      [](const BlockPlan& block) { return block.sees_old_weights(); });
  for (const OptimizerOptions& options : experiment.optimizers) {
    if (!options.correction.empty() && !kind.tells_staleness)
      top.reject("optimizer",
                 fmt::format("correction = '{}' is of one step in an update, "
                             "and with replicas.policy = '{}' there is one for "
                             "each neighbour, too: leave the correction out",
                             options.correction, policy));
    if (options.wants_forward_weights && is_late)
      top.reject("optimizer",
                 fmt::format("correction = '{}' with replicas.policy = '{}' "
                             "goes by the weights that a replica has pulled, "
                             "and boundaries that delay forward with others: "
                             "choose another correction, or 'backprop'",
                             options.correction, policy));
  }
  for (const BlockPlan& block : blocks)
    if (predicts(block.weights))
      top.reject("replicas",
                 fmt::format("weights = '{}' predicts one step for an update, "
                             "and with policy = '{}' there are several: choose "
                             "other weights",
                             block.weights.view, policy));
}

bool keeps_momentum(const OptimizerOptions& options) {
  const bool may_have_none = options.name == "sgd" || options.name == "adagrad";
  return options.momentum > 0 || !may_have_none;
}

/// What its compressed gradients allow.
void check_compressor(const Experiment& experiment, const Fields& top) {
  const ReplicaSettings& replicas = experiment.replicas;
  for (const OptimizerOptions& options : experiment.optimizers)
    if (replicas.kind.compressor.keeps_momentum && keeps_momentum(options))
      top.reject(
          "replicas",
          fmt::format("compress = '{}' has a momentum of each replica's own, "
                      "and optimizer = '{}' another one: set optimizer = "
                      "{{name = 'sgd', momentum = 0}}, or replicas.momentum = "
                      "0",
                      replicas.compress, options.name));
  const bool means =
      experiment.accumulate_mean &&
      std::any_of(experiment.plans.begin(), experiment.plans.end(),
                  [](const RunPlan& plan) {
                    return plan.blocks.front().accumulate > 1;
                  });
  if (replicas.kind.compressor.votes && means)
    top.reject("replicas",
               fmt::format("compress = '{}' decides by majority on signs, of "
                           "which there is no mean over turns: leave "
                           "accumulate.rule out, or set error_feedback = true",
                           replicas.compress));
}

/// One replica gives nobody anything, so nothing is compressed.
void tell_lone_compressor(Experiment& experiment) {
  const ReplicaSettings& replicas = experiment.replicas;
  if (replicas.count > 1 || !replicas.kind.compressor.keeps_momentum) return;
  experiment.left_out.push_back(
      fmt::format("with replicas.count = 1 nothing is compressed, and the "
                  "momentum of compress = '{}' isn't there: set "
                  "optimizer.momentum to compare with it",
                  replicas.compress));
}

/// All blocks of a replica choose by one loss, which comes down to them.
void check_adoption(const Experiment& experiment, const Fields& top) {
  if (experiment.replicas.kind.adopt_every == 0) return;
  if (!experiment.data)
    top.reject("replicas",
               "adopt_every counts epochs, which a loop of your own hasn't: "
               "leave it out");
  if (experiment.blocks() > 1 && experiment.pipeline.order != "turns")
    top.reject("pipeline",
               "replicas.adopt_every has the loss of a replica come down with "
               "whole gradients: set order = 'turns', or blocks = 1");
  for (const BlockPlan& block : blocks_of_phases(experiment)) {
    const bool comes =
        block.block == experiment.blocks() || block.gradient_from_above;
    const bool goes = block.block == 1 || block.gradient_to_below();
    if (comes && goes && block.rounds() == 1 && block.delay == 0) continue;
    top.reject(
        "replicas",
        fmt::format("adopt_every has the loss of a replica come down with the "
                    "gradients of the same turn, and at block {} it doesn't: "
                    "set boundary.policy = 'backprop', or blocks = 1",
                    block.block));
  }
}

/// What goes with weights that replicas share in memory.
void check_shared(const Experiment& experiment, const Fields& top) {
  if (!experiment.replicas.kind.exchange.in_memory) return;
  const std::string& policy = experiment.replicas.policy;
  if (experiment.engine == Engine::processes)
    top.reject("engine",
               fmt::format("'processes' have no memory in common, where "
                           "replicas.policy = '{}' keeps one copy of the "
                           "weights: set engine = 'threads' or 'virtual', or "
                           "another policy",
                           policy));
  if (uses_gpus(experiment))
    top.reject("device",
               fmt::format("replicas.policy = '{}' adds to weights by atomic "
                           "operations of the CPU: leave device out, or set "
                           "another policy",
                           policy));
  for (const OptimizerOptions& options : experiment.optimizers)
    if (!options.correction.empty())
      top.reject("optimizer",
                 fmt::format("correction = '{}' counts the updates of a "
                             "replica, and with replicas.policy = '{}' those "
                             "of others come in between: leave the correction "
                             "out, or set another policy",
                             options.correction, policy));
}

/// A server that waits for several gradients, whoever brings them.
void check_softsync(const Experiment& experiment, const Fields& top) {
  const std::int64_t n = experiment.replicas.kind.softsync;
  if (n == 0) return;
  if (!experiment.free_schedule)
    top.reject("replicas",
               "softsync is of replicas that come when they are ready: set "
               "schedule = 'free', or leave softsync out");
  if (n > experiment.replicas.count)
    top.reject("replicas",
               fmt::format("softsync = {} is for as many replicas or more, and "
                           "count = {}",
                           n, experiment.replicas.count));
  for (const OptimizerOptions& options : experiment.optimizers)
    if (!options.correction.empty())
      top.reject("optimizer",
                 fmt::format("correction = '{}' makes up for the staleness by "
                             "which softsync divides: leave one of them out",
                             options.correction));
}

/// What serves replicas in the order in which they come.
void check_served(const Experiment& experiment, const Fields& top) {
  check_softsync(experiment, top);
  if (!experiment.plans.front().blocks.front().exchange.served) return;
  if (experiment.replicas.group != GroupKind::links)
    top.reject("replicas",
               fmt::format("group = '{}' has collectives, in which all come at "
                           "once: with schedule = 'free' leave group out",
                           experiment.replicas.uses_mpi() ? "mpi" : "nccl"));
  if (uses_gpus(experiment))
    top.reject("device",
               "with schedule = 'free' replicas come to a server on CPUs only: "
               "set device = 'cpu', or schedule = 'lockstep'");
}

/// NCCL sums between GPUs.
void check_nccl_devices(const Experiment& experiment, const Fields& top) {
  if (!experiment.replicas.uses_nccl()) return;
  const auto& devices = experiment.devices;
  if (std::find(devices.begin(), devices.end(), "cpu") != devices.end())
    top.reject("replicas",
               "group = 'nccl' is for blocks on GPUs, and there is one with "
               "device = 'cpu': set its device, or group = 'links'");
}

/// What goes with one replica only.
void check_replicas(const Experiment& experiment, const Fields& top) {
  if (experiment.replicas.count == 1) return;
  check_shards(experiment, top);
  check_nccl_devices(experiment, top);
  check_served(experiment, top);
  check_steps(experiment, top);
  check_compressor(experiment, top);
  check_shared(experiment, top);
  check_adoption(experiment, top);
  if (experiment.turns == 0 &&
      experiment.deals_per_epoch < experiment.replicas.count)
    top.reject(
        "replicas",
        fmt::format("count = {}, but an epoch has {} batches, one for "
                    "each replica in a turn: set fewer replicas, a "
                    "smaller batch_size, or turns instead of epochs",
                    experiment.replicas.count, experiment.deals_per_epoch));
  if (experiment.probe_every > 0)
    top.reject("probe",
               "compares with the gradients of one network: leave it out, or "
               "set replicas.count = 1");
  const bool sums_weights =
      experiment.replicas.kind.exchange.what != Exchanged::gradients;
  for (const BlockPlan& block : blocks_of_phases(experiment))
    if (sums_weights && (block.weights.by_window || block.weights.of_entry))
      top.reject("replicas",
                 fmt::format("weights = '{}' counts the versions that updates "
                             "make, and policy = '{}' makes others: set policy "
                             "= 'all_reduce', or other weights",
                             block.weights.view, experiment.replicas.policy));
}

/// To what gradients take, where the input goes down beside them.
void add_returned_inputs(Experiment& experiment) {
  for (const BlockPlan& block : experiment.plans.front().blocks)
    if (block.replica == 1 && block.returns_input)
      by_block(experiment.costs.bytes, block.block - 1).gradient +=
          bytes_of_features(
              experiment.model, by_block(experiment.ranges, block.block - 1),
              experiment.batch_size / experiment.micro_batches.count,
              experiment.precision);
}

void make_plans(const Fields& top, Experiment& experiment) {
  const bool model_norm = wants_model_norm(experiment, top);
  check_free_schedule(experiment, model_norm, top);
  check_windows_of_blocks(experiment, experiment.blocks(),
                          experiment.accumulate_by_phase, top);
  check_reconnect(experiment, top);
  ReplicaKind& kind = experiment.replicas.kind;
  if (has_centres(experiment) && kind.brings_updated)
    kind.exchange.what = Exchanged::weights;
  experiment.plans = plans_of(experiment, model_norm);
  check_free_plans(experiment, experiment.plans, top);
  check_factors(experiment, top);
  check_replicas(experiment, top);
  tell_lone_compressor(experiment);
  check_averages(experiment, top);
  for (RunPlan& plan : experiment.plans) {
    check_plan(experiment, plan, top);
    if (experiment.probe_every > 0 && !experiment.pipeline.flush)
      top.reject("probe",
                 "compares a turn's gradients with those of the model before "
                 "it, and with pipeline.flush = false a turn begins before the "
                 "last one has ended: leave one of them out");
    if (experiment.barrier_each_iteration && !experiment.pipeline.flush)
      top.reject("barrier",
                 "every turn ends at it, and pipeline.flush = false has none "
                 "end before the next: leave one of them out");
    if (experiment.barrier_each_iteration)
      plan.barrier = barrier_around_iterations(plan);
    experiment.length.barriers.push_back(plan.barrier);
  }
  check_assistant(experiment, top);
  experiment.capacities = capacities_of(
      experiment.plans, static_cast<std::size_t>(experiment.slack));
  finish_resolved(top, experiment);
}

}  // namespace

double gradient_bytes(const Experiment& experiment, int block) {
  return parameter_bytes(experiment, by_block(experiment.ranges, block));
}

double samples_per_turn(const Experiment& experiment) {
  if (!experiment.data) return static_cast<double>(experiment.batch_size);
  return static_cast<double>(experiment.data->train.size()) *
         static_cast<double>(experiment.replicas.count) /
         static_cast<double>(experiment.deals_per_epoch);
}

std::shared_ptr<const Codec> codec_above(const Experiment& experiment,
                                         int block) {
  if (block < 1 || block >= experiment.blocks()) return nullptr;
  return experiment.codecs.at(static_cast<std::size_t>(block) - 1);
}

bool uses_gpus(const Experiment& experiment) {
  return std::any_of(experiment.devices.begin(), experiment.devices.end(),
                     [](const std::string& name) { return name != "cpu"; });
}

bool is_on_gpu(const Experiment& experiment, int block) {
  return block >= 1 && block <= experiment.blocks() &&
         experiment.devices.at(static_cast<std::size_t>(block) - 1) != "cpu";
}

BoundarySite site_of(const Experiment& experiment, int block) {
  const LayerRange range =
      experiment.ranges.at(static_cast<std::size_t>(block) - 1);
  BoundarySite site;
  site.block = block;
  site.blocks = experiment.blocks();
  site.layer = range.last;
  site.features =
      experiment.model.layers.at(static_cast<std::size_t>(range.last)).output;
  site.classes = experiment.model.sample.classes;
  site.loss = experiment.loss.training;
  site.seed = experiment.seed;
  site.model = &experiment.model;
  if (experiment.data) site.samples = experiment.data->train.size();
  site.batches_per_epoch =
      experiment.turns_per_epoch * experiment.micro_batches.count;
  return site;
}

Experiment read_experiment(const ConfigNode& written,
                           const std::string& data_root) {
  const ConfigNode config = interpolated(written);
  Experiment experiment;
  Fields top(&config, "");
  refuse_own_loop(top);
  const ConfigNode plugins = read_plugins(top);
  experiment.describe(top);
  add_policies(experiment);
  read_data(top, data_root, experiment);
  read_model(top, experiment);
  const Timetable timetable = read_rest(top, experiment);
  derive_length(experiment);
  cut_turns(top, experiment);
  experiment.length.switches = switches_of(
      timetable, [&](double epochs) { return turns_until(epochs, experiment); },
      experiment.length.evaluate_every, top);
  check_switches(experiment, top);
  make_plans(top, experiment);
  if (plugins.value.index() != 0) experiment.resolved.set("plugins", plugins);
  pin_files(experiment.data->tokenizer_sha256, experiment.resolved);
  experiment.costs = costs_of(
      experiment.virtual_time, experiment.model, experiment.ranges,
      experiment.codecs, experiment.batch_size / experiment.micro_batches.count,
      experiment.micro_batches.count, experiment.precision,
      experiment.replicas.count, top);
  add_returned_inputs(experiment);
  if (experiment.replicas.count > 1)
    for (const LayerRange& range : experiment.ranges)
      experiment.costs.exchange_bytes.push_back(
          exchanged_bytes(experiment, range));
  return experiment;
}

Experiment read_network(const ConfigNode& written, const OwnNetwork& network) {
  const ConfigNode config = interpolated(written);
  Experiment experiment;
  Fields top(&config, "");
  refuse_loop(top, network);
  experiment.describe(top);
  read_length(top, network, experiment);
  if (std::holds_alternative<std::int64_t>(experiment.cut.value))
    top.reject("blocks", "say where to cut: [\"0-3\", \"4-\"]");
  experiment.model = network.model;
  experiment.policies = network.policies;
  add_policies(experiment);
  read_rest(top, experiment);
  check_schedules(top, experiment);
  make_plans(top, experiment);
  refuse_unlocked(top, experiment);
  leave_out_loop(network, experiment.resolved);
  return experiment;
}

}  // namespace sluice
