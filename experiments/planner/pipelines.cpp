#include "experiments/planner/pipelines.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "experiments/config/files/overrides.h"
#include "lib/schedules/orders/free_running.h"

namespace sluice::planner {
namespace {

constexpr std::int64_t kBatchesPerBlock[] = {1, 2, 4};
constexpr std::int64_t kMostBatches = 256;  // that a config may have

bool can_be_pipelined(const RunPlan& plan) {
  if (runs_free(plan) || plan.model_norm) return false;
  const auto& blocks = plan.blocks;
  return std::none_of(
             blocks.begin(), blocks.end(),
             [](const auto& block) { return turns_in_flight(block) > 0; }) &&
         std::any_of(blocks.begin(), blocks.end(), [](const auto& block) {
           return block.segment.blocks() > 1;
         });
}

PlannedMethod pipelined(const PlannedMethod& method, const std::string& order,
                        std::int64_t batches) {
  PlannedMethod made = method;
  made.label = fmt::format("{}, {}, M = {}", method.label, order, batches);
  made.pipeline = override_value(
      fmt::format("{{order = \"{}\", micro_batches = {}}}", order, batches),
      "sluice plan");
  return made;
}

}  // namespace

std::vector<PlannedMethod> pipelines_of(const PlannedMethod& method,
                                        const Experiment& experiment,
                                        bool messages_take_time) {
  if (!can_be_pipelined(experiment.plans.front())) return {};
  std::vector<std::string> orders = {"1f1b", "zb-h1"};
  if (messages_take_time) orders.emplace_back("gpipe");
  std::vector<PlannedMethod> all;
  for (const std::int64_t times : kBatchesPerBlock) {
    const std::int64_t batches = times * experiment.blocks();
    if (batches > kMostBatches || experiment.batch_size % batches != 0)
      continue;
    for (const std::string& order : orders)
      all.push_back(pipelined(method, order, batches));
  }
  return all;
}

}  // namespace sluice::planner
