#include "experiments/config/rules/own_loop_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "lib/schedules/plan/plan.h"
#include "lib/updates/learning_rate.h"
#include "lib/updates/optimizer.h"

namespace sluice {
namespace {

/// Keys by which `sluice run` decides what a loop of one's own decides by
/// itself.
constexpr const char* kLoopKeys[] = {
    "name",           "epochs",   "limit",      "batch_size",   "drop_last",
    "evaluate_every", "drain",    "checkpoint", "early_stop",   "allocator",
    "timetable",      "probe",    "barrier",    "virtual",      "schedule",
    "in_flight",      "priority", "hashes",     "on_failure",   "restarts",
    "on_nan",         "trace",    "forecast",   "equal_builds", "pipeline",
    "logger"};

/// Keys that a loop with a run folder may have.
constexpr const char* kKeysOfOwnRun[] = {"name", "checkpoint", "trace",
                                         "hashes"};

bool is_of_own_run(std::string_view key) {
  return std::find(std::begin(kKeysOfOwnRun), std::end(kKeysOfOwnRun), key) !=
         std::end(kKeysOfOwnRun);
}

}  // namespace

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
    if (options.tail_average > 0 && !top.has("turns"))
      top.reject("optimizer",
                 "tail_average needs `turns`: only your loop knows when it "
                 "ends");
    if (depends_on_end(rate.schedule) && !top.has("turns"))
      top.reject("optimizer",
                 fmt::format("schedule '{}' needs `turns`: only your loop "
                             "knows when it ends",
                             name_of(rate.schedule)));
  }
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

void refuse_own_loop(const Fields& top) {
  if (top.has("own_loop"))
    top.reject("own_loop",
               "the layers and batches of this run are those of the program "
               "that run.json names: report, watch, checkpoint and export read "
               "its folder, and nothing here can train or evaluate it");
}

void refuse_unlocked(const Fields& top, const Experiment& experiment) {
  for (const RunPlan& plan : experiment.plans)
    for (const BlockPlan& block : plan.blocks)
      if (block.forwards_data())
        top.reject(
            "boundary",
            "unlock is for `sluice run`, where every block has the data; "
            "leave it out here");
}

void refuse_clocks(const Fields& top, const Experiment& experiment) {
  const ReplicaSettings& replicas = experiment.replicas;
  const ReplicaKind& kind = replicas.kind;
  const std::pair<bool, const char*> keys_of_clocks[] = {
      {!replicas.starts_with_all(), "start_with"},
      {!replicas.is_dealing_derived && replicas.dealing == Dealing::arrival,
       "deal = 'arrival'"},
      {kind.backup > 0, "backup"},
      {kind.quorum > 0, "quorum"},
      {kind.softsync > 0, "softsync"},
      {!kind.every_of.empty(), "every as a list"}};
  for (const auto& [is_set, key] : keys_of_clocks)
    if (is_set)
      top.reject("replicas",
                 fmt::format("{} is for replicas with clocks of their own "
                             "(`sluice run` with schedule = 'free'), and a "
                             "step of your loop is a turn of all: leave it out",
                             key));
  if (replicas.uses_mpi())
    top.reject("replicas",
               "group = 'mpi' is for `sluice run` under mpirun, and your "
               "program starts its processes itself: leave group out");
}

void leave_out_loop(const OwnNetwork& network, Experiment& experiment) {
  std::erase_if(std::get<ConfigNode::Table>(experiment.resolved.value),
                [&](const auto& item) {
                  if (network.writes_run && is_of_own_run(item.first))
                    return false;
                  // Older programs have read no such table.
                  if (item.first == "replicas")
                    return experiment.replicas.count == 1;
                  return std::find(std::begin(kLoopKeys), std::end(kLoopKeys),
                                   item.first) != std::end(kLoopKeys);
                });
}

void read_length(Fields& top, const OwnNetwork& network,
                 Experiment& experiment) {
  experiment.turns_per_epoch = 1;
  top.key("turns_per_epoch", experiment.turns_per_epoch,
          {.text = "how long an epoch is, for schedules of the learning rate",
           .unit = "turns",
           .min = 1,
           .max = 1e12});
  experiment.deals_per_epoch =
      experiment.turns_per_epoch * experiment.replicas.count;
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
  saving.keep.every.every =
      saving.every_turns > 0
          ? saving.every_turns
          : std::llround(saving.every *
                         static_cast<double>(experiment.turns_per_epoch));
}

}  // namespace sluice
