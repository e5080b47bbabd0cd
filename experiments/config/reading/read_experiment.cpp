#include "experiments/config/reading/read_experiment.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/added_delays.h"
#include "experiments/config/files/interpolation.h"
#include "experiments/config/files/named_paths.h"
#include "experiments/config/pinned_files.h"
#include "experiments/config/reading/sections.h"
#include "experiments/config/rules/assist_rules.h"
#include "experiments/config/rules/echo_rules.h"
#include "experiments/config/rules/free_schedule_rules.h"
#include "experiments/config/rules/graph_rules.h"
#include "experiments/config/rules/on_device.h"
#include "experiments/config/rules/own_loop_rules.h"
#include "experiments/config/rules/plan_rules.h"
#include "experiments/config/rules/replica_rules.h"
#include "experiments/config/rules/target_rules.h"
#include "experiments/config/tables/block_devices.h"
#include "experiments/config/tables/block_layers.h"
#include "experiments/config/tables/lengths.h"
#include "experiments/config/tables/phase_plans.h"
#include "experiments/config/tables/plugin_keys.h"
#include "experiments/config/virtual_time.h"
#include "lib/base/by_block.h"
#include "lib/schedules/simulation/capacities.h"
#include "transport/meeting/transports.h"

namespace sluice {
namespace {

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
  if (experiment.replicas.dealing == Dealing::arrival)
    resolved.set_path("replicas.deal", {.value = std::string("arrival")});
  experiment.resolved = without_references(std::move(resolved));
  std::vector<KeyDoc> manual = top.manual();
  manual.insert(manual.end(), experiment.manual.begin(),
                experiment.manual.end());
  experiment.manual = std::move(manual);
}

/// Adds the input's bytes to those of gradients, where the input goes down
/// beside them.
void add_returned_inputs(Experiment& experiment) {
  for (const BlockPlan& block : experiment.plans.front().blocks)
    if (block.replica == 1 && block.gradients.returns_input)
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
  check_delay(experiment, experiment.blocks(), top);
  check_reconnect(experiment, top);
  ReplicaKind& kind = experiment.replicas.kind;
  if (has_centres(experiment) && kind.brings_updated)
    kind.exchange.what = ExchangedTensors::weights;
  derive_dealing(experiment);
  experiment.plans = plans_of(experiment, model_norm);
  derive_threads(experiment);
  check_free_plans(experiment, experiment.plans, top);
  check_factors(experiment, top);
  check_replicas(experiment, top);
  tell_lone_compressor(experiment);
  check_evaluations(experiment, top);
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
  check_echo(experiment, top);
  check_assistant(experiment, top);
  experiment.capacities = capacities_of(
      experiment.plans, static_cast<std::size_t>(experiment.slack));
  finish_resolved(top, experiment);
  check_graphs(experiment, top);
  check_on_device(experiment, top);
}

}  // namespace

Experiment read_experiment(const ConfigNode& written,
                           const std::string& data_root) {
  const ConfigNode config = with_named_paths(interpolated(written));
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
      timetable, [&](double epochs) { return turn_after(epochs, experiment); },
      experiment.length.evaluate_every.every > 0, top);
  check_switches(experiment, top);
  make_plans(top, experiment);
  if (plugins.value.index() != 0) experiment.resolved.set("plugins", plugins);
  pin_files(experiment.data->tokenizer_sha256, experiment.resolved);
  experiment.costs = costs_of(
      experiment.virtual_time, experiment.model, experiment.ranges,
      experiment.codecs, experiment.batch_size / experiment.micro_batches.count,
      experiment.micro_batches.count, experiment.precision, experiment.replicas,
      top);
  add_returned_inputs(experiment);
  if (experiment.replicas.count > 1)
    for (const LayerRange& range : experiment.ranges)
      experiment.costs.exchange_bytes.push_back(
          exchanged_bytes(experiment, range));
  return experiment;
}

namespace {

/// A network of one's own has the layers that its program has made.
void refuse_other_layers(const Fields& top, const Experiment& experiment) {
  if (experiment.fine_tuning.is_there())
    top.reject("fine_tune",
               "is for models of [model]: of your own layers, set "
               "requires_grad to false for the weights that shall not train");
  for (const BoundaryCodecs& codecs : experiment.codecs)
    if (codecs.add_layers)
      top.reject("boundary",
                 "a codec that adds layers at the cut is for models of "
                 "[model]: put a linear layer on either side of the cut among "
                 "your own, or choose another codec");
}

}  // namespace

Experiment read_network(const ConfigNode& written, const OwnNetwork& network) {
  const ConfigNode config = with_named_paths(interpolated(written));
  Experiment experiment;
  Fields top(&config, "");
  refuse_loop(top, network);
  experiment.replicas.own_policies = network.replica_policies;
  experiment.describe(top);
  read_length(top, network, experiment);
  if (std::holds_alternative<std::int64_t>(experiment.cut.value))
    top.reject("blocks", "say where to cut: [\"0-3\", \"4-\"]");
  experiment.model = network.model;
  experiment.policies = network.policies;
  add_policies(experiment);
  read_rest(top, experiment);
  refuse_other_layers(top, experiment);
  check_schedules(top, experiment);
  refuse_clocks(top, experiment);
  make_plans(top, experiment);
  refuse_unlocked(top, experiment);
  leave_out_loop(network, experiment);
  return experiment;
}

}  // namespace sluice
