#include "experiments/config/rules/plan_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/tables/block_layers.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/plan/replica_exchange.h"
#include "lib/updates/optimizer.h"
#include "lib/weights/weight_view.h"

namespace sluice {
namespace {

void for_each_policy(const Experiment& experiment,
                     const std::function<void(const std::string&)>& check) {
  for (const Boundaries& phase : experiment.phases)
    for (const BoundaryPolicy& boundary : phase) check(boundary.name);
}

/// A replay forwards a batch twice: whether BatchNorm's running statistics see
/// it twice changes the evaluations, so the config must say it.
void check_statistics(const Experiment& experiment, const BlockPlan& block,
                      const Fields& top) {
  const bool replays = block.delay > 0 && block.weights.replays();
  if (!replays || block.weights.statistics) return;
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

/// Checks that a look-ahead is the only thing that says at which weights a
/// gradient is taken.
void check_look_ahead(const Experiment& experiment, const BlockPlan& block,
                      const Fields& top) {
  const auto index = static_cast<std::size_t>(block.block) - 1;
  if (!experiment.optimizers.at(index).look_ahead) return;
  const auto refuse = [&](const std::string& why) {
    top.reject("optimizer",
               fmt::format("look_ahead takes gradients at weights of its own, "
                           "and {}: leave look_ahead out, or set nesterov = "
                           "true",
                           why));
  };
  if (block.sees_old_weights())
    refuse(
        fmt::format("in block {} updates come between the forward and the "
                    "backward of a batch",
                    block.block));
  if (block.recompute) refuse("pipeline.recompute forwards again without it");
  if (experiment.probe_every > 0) refuse("probe compares with others");
  const ReplicaExchange& exchange = block.exchange;
  if (exchange.in_memory ||
      (exchange.served && exchange.what == ExchangedTensors::gradients))
    refuse(
        fmt::format("with replicas.policy = '{}' the velocity isn't the "
                    "replica's",
                    experiment.replicas.policy));
}

/// Checks that layers which are run again meet the weights of their forward.
void check_checkpoints(const Experiment& experiment, const BlockPlan& block,
                       const Fields& top) {
  const WeightsAtBackward& weights = block.weights;
  if (experiment.checkpoint_layers == 0 || !block.sees_old_weights() ||
      !weights.of_today || weights.forwards_again)
    return;
  top.reject("checkpoint_layers",
             fmt::format("block {} takes the activations of a batch's forward "
                         "to other weights (weights = '{}'), and its layers "
                         "run again would give those of the other weights: "
                         "leave the key out, or choose other weights",
                         block.block, weights.view));
}

/// Checks that views which predict weights have an optimizer with a velocity,
/// and no correction that makes up for the same delay again.
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
      std::any_of(block.gradients.parts.begin(), block.gradients.parts.end(),
                  [](const GradientPart& part) { return part.own; });
  if (has_head && block.gradients.from_above &&
      !experiment.optimizers.at(index).correction.empty())
    top.reject("optimizer",
               fmt::format("block {} has a loss of its own, whose gradient is "
                           "never stale, beside one that is: a correction "
                           "would change both; leave it out there",
                           block.block));
}

}  // namespace

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
               options.clip_norm == experiment.optimizers[0].clip_norm &&
               options.clip_at == experiment.optimizers[0].clip_at;
      });
  if (!all_alike)
    top.reject("optimizer",
               "clip.scope = 'model' must hold for all blocks, with one norm "
               "and one 'at'");
  for_each_policy(experiment, [&](const std::string& policy) {
    if (policy != "backprop")
      top.reject("optimizer",
                 "clip.scope = 'model' needs backprop at every boundary; use "
                 "clip.scope = 'block'");
  });
  return true;
}

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

void check_plan(const Experiment& experiment, const RunPlan& plan,
                const Fields& top) {
  for (const BlockPlan& block : plan.blocks) {
    check_view(experiment, block, top);
    check_checkpoints(experiment, block, top);
    check_look_ahead(experiment, block, top);
  }
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

void check_factors(const Experiment& experiment, const Fields& top) {
  for (std::size_t i = 0; i < experiment.plans.size(); ++i)
    for (int k = 1; k < experiment.blocks(); ++k) {
      if (by_block(experiment.phases[i], k).name != "nmf") continue;
      if (codecs_above(experiment, k).add_layers)
        top.reject("boundary",
                   fmt::format("nmf above block {} takes features of which "
                               "none is negative, and a codec whose layers "
                               "mix channels makes such: choose another codec",
                               k));
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

void check_evaluations(const Experiment& experiment, const Fields& top) {
  if (experiment.phases.size() == 1) return;
  for (const Boundaries& phase : experiment.phases)
    for (int k = 1; k < experiment.blocks(); ++k)
      if (by_block(phase, k).make.changes_evaluations)
        top.reject("timetable",
                   fmt::format("with evaluate = 'factors' the policy above "
                               "block {} is part of the network that is "
                               "evaluated, and holds for the whole run: leave "
                               "the timetable out, or set evaluate = "
                               "'features'",
                               k));
}

void check_averages(const Experiment& experiment, const Fields& top) {
  const OptimizerOptions& first = experiment.optimizers.front();
  const auto check_alike = [&](const char* key,
                               double OptimizerOptions::*value) {
    for (const OptimizerOptions& options : experiment.optimizers)
      if (options.*value != first.*value)
        top.reject("optimizer",
                   fmt::format("{} must be the same for all blocks, not {} "
                               "here and {} there",
                               key, first.*value, options.*value));
  };
  check_alike("average", &OptimizerOptions::average);
  check_alike("tail_average", &OptimizerOptions::tail_average);
  if (first.averages() && experiment.replicas.count > 1 &&
      experiment.replicas.kind.exchange.leaves_them_apart())
    top.reject("optimizer",
               fmt::format("{} goes with replicas.policy = 'all_reduce': "
                           "with '{}' evaluations have what the replicas agree "
                           "on",
                           first.average > 0 ? "average" : "tail_average",
                           experiment.replicas.policy));
}

}  // namespace sluice
