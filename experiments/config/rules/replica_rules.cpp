#include "experiments/config/rules/replica_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/tables/phase_plans.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/updates/optimizer.h"
#include "lib/weights/weight_view.h"

namespace sluice {
namespace {

std::vector<BlockPlan> blocks_of_phases(const Experiment& experiment) {
  std::vector<BlockPlan> all;
  for (const RunPlan& plan : experiment.plans)
    all.insert(all.end(), plan.blocks.begin(), plan.blocks.end());
  return all;
}

/// Refuses what a replica can't do that has only its part of each tensor.
void check_shards(const Experiment& experiment, const Fields& top) {
  if (!experiment.replicas.kind.exchange.shards) return;
  for (const OptimizerOptions& options : experiment.optimizers)
    if (options.wants_whole)
      top.reject(
          "replicas",
          fmt::format("shard = true goes with updates that treat each weight "
                      "alone, and {} doesn't: leave shard out",
                      options.name == "sgd"
                          ? fmt::format("optimizer.correction = '{}'",
                                        options.correction)
                          : fmt::format("optimizer = '{}'", options.name)));
  for (const BlockPlan& block : blocks_of_phases(experiment))
    if (predicts(block.weights))
      top.reject("replicas",
                 fmt::format("weights = '{}' predicts all weights by the state "
                             "of the optimizer, of which with shard = true "
                             "each replica keeps a part: leave shard out",
                             block.weights.view));
}

/// Refuses what counts on one step of the optimizer in an update.
void check_steps(const Experiment& experiment, const Fields& top) {
  const ReplicaKind& kind = experiment.replicas.kind;
  if (kind.exchange.what != ExchangedTensors::gradients ||
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
  return options.momentum != 0 || !may_have_none;
}

/// Checks what goes with compressed gradients.
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

/// The largest `beta` of "elastic" with which an exchange alone, without a
/// gradient, doesn't drive replicas and centre apart. All at once, their mean
/// and the centre are 1 - beta - beta / N times as far apart as they were; one
/// by one, a visit leaves a replica 1 - 2 beta / N times as far from the
/// centre.
double most_elastic_beta(std::int64_t count, bool one_by_one) {
  const auto members = static_cast<double>(count);
  return one_by_one ? members : 2 * members / (members + 1);
}

void check_elastic(const Experiment& experiment, const Fields& top) {
  if (experiment.replicas.policy != "elastic") return;
  const double beta =
      std::get<double>(top.resolved().find("replicas")->find("beta")->value);
  const bool one_by_one = !experiment.replicas.kind.exchange.graph.is_all();
  const double most = most_elastic_beta(experiment.replicas.count, one_by_one);
  if (beta <= most) return;
  top.reject("replicas",
             fmt::format("beta = {:g} has {} replicas and their centre pull "
                         "each other further apart in every exchange: set it "
                         "to {:g} at most; 0.9 is usual",
                         beta, experiment.replicas.count,
                         std::floor(1000 * most) / 1000));
}

/// The losses come with the gradients, and each block has a centre of its own.
void check_adoption_at_centre(const Experiment& experiment, const Fields& top) {
  if (experiment.blocks() > 1)
    top.reject("replicas",
               "with schedule = 'free' adopt_every is of networks in one "
               "block, whose centre has the losses of all replicas: set blocks "
               "= 1, or schedule = 'lockstep'");
  for (const BlockPlan& block : blocks_of_phases(experiment))
    if (block.accumulate > 1)
      top.reject("replicas",
                 "with schedule = 'free' adopt_every has each batch bring its "
                 "loss to the centre: leave accumulate out, or set schedule = "
                 "'lockstep'");
}

/// Checks adoption: all blocks of a replica choose by one loss, which comes
/// down to them.
void check_adoption(const Experiment& experiment, const Fields& top) {
  if (experiment.replicas.kind.adopt_every == 0) return;
  if (!experiment.data && !top.has("turns_per_epoch"))
    top.reject("replicas",
               "adopt_every counts epochs, and only your loop knows how long "
               "one is: set turns_per_epoch");
  if (experiment.blocks() > 1 && experiment.pipeline.order != "turns")
    top.reject("pipeline",
               "replicas.adopt_every has the loss of a replica come down with "
               "whole gradients: set order = 'turns', or blocks = 1");
  if (has_centres(experiment)) return check_adoption_at_centre(experiment, top);
  for (const BlockPlan& block : blocks_of_phases(experiment)) {
    const bool comes =
        block.block == experiment.blocks() || block.gradients.from_above;
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

/// Checks what goes with weights that replicas share in memory.
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
  if (experiment.probe_every > 0)
    top.reject("probe",
               fmt::format("compares with weights from before a turn, and with "
                           "replicas.policy = '{}' a forward reads others: "
                           "leave it out, or set another policy",
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
                           "count = {}: set a smaller softsync, or more "
                           "replicas",
                           n, experiment.replicas.count));
  for (const OptimizerOptions& options : experiment.optimizers)
    if (!options.correction.empty())
      top.reject("optimizer",
                 fmt::format("correction = '{}' makes up for the staleness by "
                             "which softsync divides: leave one of them out",
                             options.correction));
}

/// Refuses backup workers and quorums where no clock decides which replicas
/// count.
void check_quorum(const Experiment& experiment, const Fields& top) {
  const ReplicaKind& kind = experiment.replicas.kind;
  const std::int64_t count = experiment.replicas.count;
  if (kind.backup == 0 && kind.quorum == 0) return;
  const char* key = kind.backup > 0 ? "backup" : "quorum";
  if (!experiment.free_schedule)
    top.reject("replicas",
               fmt::format("{} has a clock decide whose turn counts, and in "
                           "lockstep there is none: set schedule = 'free', or "
                           "leave {} out",
                           key, key));
  if (kind.backup >= count)
    top.reject("replicas",
               fmt::format("backup = {} leaves none of {} replicas to wait "
                           "for: set a smaller backup, or more replicas",
                           kind.backup, count));
  if (kind.quorum > count)
    top.reject("replicas",
               fmt::format("quorum = {} is for as many replicas or more, and "
                           "count = {}: set a smaller quorum, or more replicas",
                           kind.quorum, count));
  if (kind.backup > 0 && experiment.blocks() > 1)
    top.reject("replicas",
               "backup drops the gradient of a whole network, and with several "
               "blocks each would drop others: set blocks = 1, or leave backup "
               "out");
  if (kind.backup > 0 && experiment.optimizers.front().averages())
    top.reject("optimizer",
               "an average is over the updates that replica 1 makes, and with "
               "replicas.backup it leaves some out: leave one of them out");
}

/// Checks what goes with replicas that come to a centre, and wait there for
/// others.
void check_waiting(const Experiment& experiment, const Fields& top) {
  check_quorum(experiment, top);
  const ReplicaKind& kind = experiment.replicas.kind;
  if (!experiment.free_schedule || !kind.waits) return;
  const auto refuse = [&](std::string_view key) {
    top.reject("replicas",
               fmt::format("{} is of exchanges in lockstep: leave it out, or "
                           "set schedule = 'lockstep'",
                           key));
  };
  if (kind.exchange.shards) refuse("shard");
  if (kind.compressor.make) refuse("compress");
  if (kind.exchange.each_before > 0) refuse("each_before");
  for (const OptimizerOptions& options : experiment.optimizers)
    if (options.wants_forward_weights &&
        kind.exchange.what == ExchangedTensors::gradients)
      top.reject("optimizer",
                 fmt::format("correction = '{}' goes by the weights of a "
                             "forward, which replicas that come to a centre "
                             "don't bring: choose another correction, or "
                             "schedule = 'lockstep'",
                             options.correction));
}

/// Checks a number of updates for each replica.
void check_updates(const Experiment& experiment, const Fields& top) {
  const std::vector<std::int64_t>& every = experiment.replicas.kind.every_of;
  if (every.empty()) return;
  if (std::ssize(every) != experiment.replicas.count)
    top.reject("replicas",
               fmt::format("every has {} numbers for {} replicas: give one for "
                           "each, or one for all",
                           every.size(), experiment.replicas.count));
  if (!experiment.free_schedule)
    top.reject("replicas",
               "every as a list is of replicas that come to a centre when they "
               "are ready: set schedule = 'free', or one number");
}

/// Checks what goes with a centre that serves replicas in the order in which
/// they come.
void check_served(const Experiment& experiment, const Fields& top) {
  check_softsync(experiment, top);
  check_waiting(experiment, top);
  check_updates(experiment, top);
  if (!experiment.free_schedule &&
      experiment.replicas.kind.exchange.visits_partners)
    top.reject("replicas",
               "meet_at = 'partner' is of replicas that meet when they are "
               "ready: set schedule = 'free', or leave meet_at out");
  const std::string& key = experiment.replicas.kind.lockstep_key;
  if (experiment.free_schedule && !key.empty())
    top.reject("replicas",
               fmt::format("{} is of exchanges in lockstep: leave it out, or "
                           "set schedule = 'lockstep'",
                           key));
  if (!experiment.plans.front().blocks.front().exchange.served) return;
  if (experiment.replicas.group != GroupKind::links)
    top.reject("replicas",
               fmt::format("group = '{}' has collectives, in which all come at "
                           "once: with schedule = 'free' leave group out",
                           experiment.replicas.uses_mpi() ? "mpi" : "nccl"));
}

/// Checks what goes with blocks that have different numbers of replicas.
void check_uneven_replicas(const Experiment& experiment, const Fields& top) {
  const std::string list = experiment.replicas.count_text();
  if (uses_gpus(experiment))
    top.reject("device",
               fmt::format("replicas.count = {} is for CPUs: set device = "
                           "'cpu', or one number of replicas for all blocks",
                           list));
  for (const OptimizerOptions& options : experiment.optimizers)
    if (options.clip_at == ClipPlace::replica)
      top.reject("optimizer",
                 fmt::format("clip.at = 'replica' clips what one replica has "
                             "of a turn, and with replicas.count = {} that is "
                             "another part in each block: leave clip.at out, "
                             "or set one number of replicas for all blocks",
                             list));
  if (experiment.probe_every > 0)
    top.reject("probe",
               fmt::format("compares the blocks of a replica, and with "
                           "replicas.count = {} they have other batches: leave "
                           "it out, or set one number of replicas for all "
                           "blocks",
                           list));
}

/// Places of replicas that come later.
void check_start_with(const Experiment& experiment, const Fields& top) {
  const ReplicaSettings& replicas = experiment.replicas;
  if (replicas.starts_with_all()) return;
  const auto refuse = [&](const std::string& why) {
    top.reject("replicas",
               fmt::format("start_with = {}: {}", replicas.start_with, why));
  };
  if (replicas.kind.exchange.visits_partners)
    refuse(
        "none joins those that meet at partners: leave one of start_with and "
        "meet_at out");
  if (replicas.start_with >= replicas.count)
    refuse(
        fmt::format("count = {} leaves no place for others: leave "
                    "start_with out, or set a larger count",
                    replicas.count));
  if (experiment.engine != Engine::processes)
    refuse(
        fmt::format("others join as processes: set engine = 'processes', "
                    "or leave start_with out"));
  if (!can_be_joined(experiment))
    refuse(
        "others can join where none waits for all and work follows speed, on "
        "CPUs: set schedule = 'free', deal = 'arrival', and policy = 'server', "
        "'neighbours', 'elastic', 'gossip' or 'average' with a quorum below "
        "start_with, or leave start_with out");
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

}  // namespace

bool can_be_joined(const Experiment& experiment) {
  const RunPlan& plan = experiment.plans.front();
  return survives_loss(plan) && plan.blocks.front().micro_batches.by_arrival &&
         !plan.blocks.front().placement.is_shared() && !uses_gpus(experiment);
}

void check_replicas(const Experiment& experiment, const Fields& top) {
  if (experiment.replicas.count == 1) return;
  if (experiment.replicas.are_uneven()) check_uneven_replicas(experiment, top);
  check_shards(experiment, top);
  check_nccl_devices(experiment, top);
  check_served(experiment, top);
  check_steps(experiment, top);
  check_compressor(experiment, top);
  check_shared(experiment, top);
  check_elastic(experiment, top);
  check_adoption(experiment, top);
  check_start_with(experiment, top);
  if (experiment.turns == 0 &&
      experiment.deals_per_epoch < experiment.replicas.count)
    top.reject(
        "replicas",
        fmt::format("count = {}, but an epoch has {} batches, one for "
                    "each replica in a turn: set fewer replicas, a "
                    "smaller batch_size, or turns instead of epochs",
                    experiment.replicas.count, experiment.deals_per_epoch));
  const bool sums_weights =
      experiment.replicas.kind.exchange.what != ExchangedTensors::gradients;
  for (const BlockPlan& block : blocks_of_phases(experiment))
    if (sums_weights && (block.weights.by_window || block.weights.of_entry))
      top.reject("replicas",
                 fmt::format("weights = '{}' counts the versions that updates "
                             "make, and policy = '{}' makes others: set policy "
                             "= 'all_reduce', or other weights",
                             block.weights.view, experiment.replicas.policy));
}

void tell_lone_compressor(Experiment& experiment) {
  const ReplicaSettings& replicas = experiment.replicas;
  if (replicas.count > 1 || !replicas.kind.compressor.keeps_momentum) return;
  experiment.left_out.push_back(
      fmt::format("with replicas.count = 1 nothing is compressed, and the "
                  "momentum of compress = '{}' isn't there: set "
                  "optimizer.momentum to compare with it",
                  replicas.compress));
}

}  // namespace sluice
