// Checks of keys that others leave without effect.
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/parameter_names.h"
#include "experiments/config/reading/start_rows.h"
#include "experiments/config/tables/block_layers.h"
#include "lib/base/by_block.h"
#include "lib/base/name_pattern.h"

namespace sluice::at_start {
namespace {

/// What the patterns of an optimizer's groups take, in the order of the groups:
/// the first that matches a name holds.
class PatternUse {
 public:
  struct Use {
    bool matches = false;  ///< some name
    bool holds = false;    ///< for some name, before all groups above
  };

  void count(const OptimizerOptions& options,
             const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      bool is_taken = false;  // by an earlier group
      for (std::size_t i = 0; i < options.groups.size(); ++i) {
        bool is_in_group = false;
        for (const std::string& pattern : options.groups[i].match) {
          if (!matches_pattern(pattern, name)) continue;
          Use& use = uses_[{i, pattern}];
          use.matches = is_in_group = true;
          use.holds = use.holds || !is_taken;
        }
        is_taken = is_taken || is_in_group;
      }
    }
  }
  Use of(std::size_t group, const std::string& pattern) const {
    const auto found = uses_.find({group, pattern});
    return found == uses_.end() ? Use{} : found->second;
  }

 private:
  std::map<std::pair<std::size_t, std::string>, Use> uses_;
};

/// Uses of patterns over all blocks: one that a config gives all blocks need
/// match in one of them only.
PatternUse pattern_use(const Experiment& experiment) {
  PatternUse use;
  for (int block = 1; block <= experiment.blocks(); ++block) {
    const OptimizerOptions& options = by_block(experiment.optimizers, block);
    if (!options.groups.empty())
      use.count(options, parameter_names(experiment, block));
  }
  return use;
}

std::string example_name(const Experiment& experiment) {
  for (int block = 1; block <= experiment.blocks(); ++block)
    if (const auto names = parameter_names(experiment, block); !names.empty())
      return names.front();
  return "layers.0.weight";
}

/// Whether a gradient that block k applies may be older than its weights.
bool may_be_stale(const Experiment& experiment, int block) {
  const bool is_free = experiment.free_schedule;
  const ReplicaSettings& replicas = experiment.replicas;
  const bool has_own_clocks =
      replicas.count > 1 &&
      (replicas.kind.tells_staleness || replicas.kind.make_centre != nullptr ||
       replicas.policy == "shared");
  return is_free || has_own_clocks ||
         std::any_of(experiment.plans.begin(), experiment.plans.end(),
                     [&](const RunPlan& plan) {
                       return by_block(plan.blocks, block).sees_old_weights();
                     });
}

/// The text at a dotted path of the resolved config; nothing: there is none.
std::optional<std::string> text_at(const ConfigNode& root,
                                   std::initializer_list<std::string> keys) {
  const ConfigNode* node = &root;
  for (const std::string& key : keys)
    if (node != nullptr) node = node->find(key);
  const auto* text =
      node == nullptr ? nullptr : std::get_if<std::string>(&node->value);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

}  // namespace

StartFaults group_matches_nothing(const Experiment& experiment) {
  const auto has_groups = [](const OptimizerOptions& options) {
    return !options.groups.empty();
  };
  if (std::none_of(experiment.optimizers.begin(), experiment.optimizers.end(),
                   has_groups))
    return {};
  const PatternUse use = pattern_use(experiment);
  const std::string example = example_name(experiment);
  StartFaults faults;
  std::set<std::string> told;
  for (const OptimizerOptions& options : experiment.optimizers)
    for (std::size_t i = 0; i < options.groups.size(); ++i)
      for (const std::string& pattern : options.groups[i].match) {
        const PatternUse::Use found = use.of(i, pattern);
        if (found.holds) continue;
        std::string text =
            found.matches
                ? fmt::format(
                      "all that '{}' matches is in earlier groups: it "
                      "changes nothing; put it first",
                      pattern)
                : fmt::format(
                      "'{}' matches no parameter, so it changes "
                      "nothing; names are like '{}'",
                      pattern, example);
        if (told.insert(text).second)
          faults.push_back(
              {fmt::format("optimizer.groups[{}].match", i), std::move(text)});
      }
  return faults;
}

StartFaults nothing_to_correct(const Experiment& experiment) {
  std::string correction;
  for (int block = 1; block <= experiment.blocks(); ++block) {
    const OptimizerOptions& options = by_block(experiment.optimizers, block);
    if (options.correction.empty()) continue;
    if (may_be_stale(experiment, block)) return {};
    correction = options.correction;
  }
  if (correction.empty()) return {};
  return {{"optimizer.correction.name",
           fmt::format("'{}' corrects stale gradients, and none is stale here: "
                       "it changes nothing; set a policy with a delay, or "
                       "schedule = 'free', or leave it out",
                       correction)}};
}

StartFaults nothing_to_view(const Experiment& experiment) {
  if (experiment.free_schedule) return {};
  StartFaults faults;
  const RunPlan& first = experiment.plans.front();
  for (int k = 1; k < experiment.blocks(); ++k) {
    const std::string number = std::to_string(k);
    const auto view =
        text_at(experiment.resolved, {"boundary", number, "weights"});
    if (!view || *view == "stash" || experiment.plans.size() > 1 ||
        by_block(first.blocks, k).sees_old_weights())
      continue;
    faults.push_back(
        {"boundary." + number + ".weights",
         fmt::format("'{}' says which weights a late backward sees, and block "
                     "{} has none: it changes nothing; leave it out",
                     *view, k)});
  }
  return faults;
}

StartFaults nothing_to_exchange(const Experiment& experiment) {
  const ReplicaSettings& replicas = experiment.replicas;
  const bool compresses = replicas.compress != "none";
  StartFaults faults;
  if (replicas.count == 1) {
    if (compresses && !replicas.kind.compressor.keeps_momentum)
      faults.push_back(
          {"replicas.compress",
           fmt::format("'{}' with replicas.count = 1 compresses nothing: set a "
                       "count above 1, or leave it out",
                       replicas.compress)});
    if (replicas.policy != ReplicaSettings().policy)
      faults.push_back(
          {"replicas.policy",
           fmt::format("'{}' with replicas.count = 1 brings nothing together: "
                       "set a count above 1, or leave it out",
                       replicas.policy)});
    return faults;
  }
  for (int k = 1; compresses && k <= experiment.blocks(); ++k)
    if (parameter_bytes(experiment, by_block(experiment.ranges, k)) == 0)
      faults.push_back(
          {"replicas.compress",
           fmt::format("'{}' has nothing to compress in block {}, which has no "
                       "parameters",
                       replicas.compress, k)});
  return faults;
}

StartFaults nothing_to_clip(const Experiment& experiment) {
  return of_optimizers(
      experiment, "clip", [](const OptimizerOptions& options) -> std::string {
        const OptimizerOptions usual;
        const bool is_said = options.clip_scope != usual.clip_scope ||
                             options.clip_at != usual.clip_at;
        if (options.clip_norm > 0 || !is_said) return "";
        return "scope and at say how to clip, and norm = 0 clips nothing: set "
               "norm";
      });
}

StartFaults nothing_to_keep(const Experiment& experiment) {
  StartFaults faults;
  const KeepOptions& keep = experiment.checkpoint.keep;
  if (keep.last > 0 && keep.every.every == 0)
    faults.push_back(
        {"checkpoint.keep",
         fmt::format("{} of the checkpoints on the way are kept, and there are "
                     "none: set checkpoint.every too",
                     keep.last)});
  if (keep.best && experiment.length.evaluate_every.every == 0)
    faults.push_back({"checkpoint.best",
                      "with evaluate_every = 0 the only evaluation is that of "
                      "the end: set evaluate_every"});
  const EarlyStopOptions& stop = experiment.length.early_stop;
  if (stop.patience == 0 && stop.min_delta > 0)
    faults.push_back({"early_stop.min_delta",
                      "with early_stop.patience = 0 nothing stops early: set "
                      "patience too"});
  const std::vector<std::int64_t>& windows = experiment.accumulate_by_phase;
  const bool accumulates =
      !experiment.accumulate_by_block.empty() ||
      *std::max_element(windows.begin(), windows.end()) > 1;
  if (experiment.accumulate_mean && !accumulates)
    faults.push_back({"accumulate.rule",
                      "'mean' of one turn is its gradient: set "
                      "accumulate.batches too"});
  return faults;
}

StartFaults no_processes(const Experiment& experiment) {
  if (experiment.engine == Engine::processes) return {};
  const std::string engine = name_of(experiment.engine);
  StartFaults faults;
  if (experiment.restart_on_failure)
    faults.push_back(
        {"on_failure",
         fmt::format("'restart' is for worker processes, and engine = '{}' has "
                     "none: set engine = 'processes'",
                     engine)});
  if (experiment.reconnect_seconds > 0)
    faults.push_back(
        {"reconnect",
         fmt::format("{:g} s are for connections between processes, and engine "
                     "= '{}' has none: set engine = 'processes'",
                     experiment.reconnect_seconds, engine)});
  return faults;
}

StartFaults nothing_to_share(const Experiment& experiment) {
  if (!experiment.mps) return {};
  if (experiment.engine != Engine::processes)
    return {{"mps", fmt::format("lets processes share a GPU, and engine = '{}' "
                                "has none: set engine = 'processes'",
                                name_of(experiment.engine))}};
  if (uses_gpus(experiment)) return {};
  return {{"mps",
           "lets processes share a GPU, and no block is on one: set device = "
           "'cuda'"}};
}

StartFaults limit_above_size(const Experiment& experiment) {
  StartFaults faults;
  const auto look = [&](const char* key, std::int64_t limit, const Split& split,
                        const char* name) {
    if (limit > split.size())
      faults.push_back(
          {key, fmt::format("{} samples at most, and the {} split has {}: all "
                            "are used",
                            limit, name, split.size())});
  };
  look("limit.train", experiment.limit.train, experiment.data->train,
       "training");
  look("limit.evaluation", experiment.limit.evaluation, experiment.data->test,
       "test");
  return faults;
}

}  // namespace sluice::at_start
