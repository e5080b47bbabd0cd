#include "experiments/config/reading/start_checks.h"

#include <charconv>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/reading/start_rows.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// The node of "timetable[1].accumulate" or "optimizer.lr"; nullptr: the
/// resolved config hasn't it.
const ConfigNode* node_at(const ConfigNode& root, std::string_view path) {
  const ConfigNode* node = &root;
  while (node != nullptr && !path.empty()) {
    const std::size_t end = path.find_first_of(".[");
    if (end == 0 && path.front() == '[') {
      std::size_t index = 0;
      std::from_chars(path.data() + 1, path.data() + path.size(), index);
      const auto* list = std::get_if<ConfigNode::Array>(&node->value);
      node =
          list != nullptr && index < list->size() ? &(*list)[index] : nullptr;
      path.remove_prefix(path.find(']') + 1);
    } else if (end == 0) {
      path.remove_prefix(1);
    } else {
      node = node->find(path.substr(0, end));
      path.remove_prefix(end == path.npos ? path.size() : end);
    }
  }
  return node;
}

/// Keys of all blocks lie in the tables of each.
const ConfigNode* written_at(const ConfigNode& resolved,
                             const std::string& key) {
  if (const ConfigNode* node = node_at(resolved, key)) return node;
  const std::size_t dot = key.find('.');
  return dot == key.npos
             ? nullptr
             : node_at(resolved, key.substr(0, dot) + ".1" + key.substr(dot));
}

std::string line_of(const StartFault& fault, const ConfigNode& resolved) {
  const ConfigNode* node = written_at(resolved, fault.key);
  const std::string place = node == nullptr ? "" : node->origin.text();
  return place.empty() || place == Origin{}.text()
             ? fmt::format("{}: {}", fault.key, fault.text)
             : fmt::format("{}: {}: {}", place, fault.key, fault.text);
}

}  // namespace

std::span<const StartCheck> start_checks() {
  using enum FaultEffect;
  using namespace at_start;
  static constexpr StartCheck kRows[] = {
      {"a window of accumulate longer than the run", refused, no_update},
      {"turns at the end whose gradients are dropped", told,
       turns_in_no_update},
      {"an early stop with too few evaluations", told, stop_never_comes},
      {"a phase beyond the end", told, phase_never_begins},
      {"milestones beyond the end", told, milestone_never_comes},
      {"a warm-up as long as the run", told, warm_up_never_ends},
      {"no evaluation before the end", told, evaluated_at_the_end_only},
      {"no checkpoint before the end", told, saved_at_the_end_only},
      {"a trace of turns beyond the end", told, trace_never_begins},
      {"an average that is still of the first weights", told,
       average_of_first_weights},
      {"a group of parameters that no name matches", told,
       group_matches_nothing},
      {"a correction where nothing is stale", told, nothing_to_correct},
      {"a view of old weights where there are none", told, nothing_to_view},
      {"replicas' keys where there is nothing to exchange", told,
       nothing_to_exchange},
      {"keys of clipping without a norm", told, nothing_to_clip},
      {"keys of checkpoints or stops that others switch off", told,
       nothing_to_keep},
      {"keys of worker processes where there are none", told, no_processes},
      {"a service for GPUs that are not shared", told, nothing_to_share},
      {"a limit above the size of the split", told, limit_above_size},
      {"a batch of one sample where a layer normalises over it", refused,
       one_sample_to_normalise},
      {"images that a change leaves nothing of", refused, no_image_left},
      {"targets that say nothing of the class", told, no_label_left},
      {"layers that compute in fp32 instead of bf16", told,
       bf16_computed_in_fp32},
      {"layers that can't compute in bf16 here", refused, bf16_not_there},
  };
  return kRows;
}

StartLines lines_at_start(const Experiment& experiment) {
  StartLines lines;
  if (!experiment.data) return lines;  // batches are fed in by a program's loop
  for (const StartCheck& check : start_checks())
    for (const StartFault& fault : check.look(experiment))
      (check.answer == FaultEffect::told ? lines.told : lines.refused)
          .push_back(line_of(fault, experiment.resolved));
  return lines;
}

std::vector<std::string> check_start(const Experiment& experiment) {
  StartLines lines = lines_at_start(experiment);
  if (!lines.refused.empty()) throw UserError("{}", lines.refused.front());
  return std::move(lines.told);
}

std::vector<std::string> told_on_resume(const Experiment& experiment) {
  StartLines lines = lines_at_start(experiment);
  lines.told.insert(lines.told.begin(), lines.refused.begin(),
                    lines.refused.end());
  return std::move(lines.told);
}

}  // namespace sluice
