#include "experiments/config/rules/free_schedule_rules.h"

#include <cstddef>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "lib/schedules/orders/free_running.h"

namespace sluice {
namespace {

/// A block beside which a phase has another buffer, or another slow consumer,
/// than the first phase; 0: none.
int changed_block(const Plans& plans) {
  for (const RunPlan& plan : plans)
    for (std::size_t k = 0; k < plan.blocks.size(); ++k) {
      const BlockPlan& now = plan.blocks[k];
      const BlockPlan& first = plans.front().blocks[k];
      if (now.free.inbox_below != first.free.inbox_below ||
          now.free.inbox_above != first.free.inbox_above)
        return now.block;
    }
  return 0;
}

}  // namespace

void check_free_schedule(const Settings& settings, bool model_norm,
                         const Fields& top) {
  if (!settings.free_schedule) {
    if (settings.in_flight > 0)
      top.reject(
          "in_flight",
          "is for schedule = 'free'; in lockstep the policies decide it: set "
          "schedule = 'free', or leave it out");
    if (settings.priority != Priority::backward)
      top.reject("priority",
                 "is for schedule = 'free'; in lockstep the policies decide "
                 "the order: set schedule = 'free', or leave it out");
    return;
  }
  const auto refuse = [&](const char* key, const char* what) {
    top.reject(key, std::string(what) +
                        " needs turns that mean the same for all blocks: set "
                        "schedule = 'lockstep', or leave it out");
  };
  if (settings.barrier_each_iteration) refuse("barrier", "a barrier");
  const PipelineSettings& pipeline = settings.pipeline;
  if (pipeline.order != PipelineSettings().order)
    refuse("pipeline", "an order");
  if (pipeline.recompute || !pipeline.flush)
    refuse("pipeline", "recompute or flush");
  if (pipeline.weights.by_window)
    refuse("pipeline", "a choice of weights by window");
  if (model_norm) refuse("optimizer", "clip.scope = 'model'");
}

void check_windows_of_blocks(const Settings& settings, int blocks,
                             const std::vector<std::int64_t>& by_phase,
                             const Fields& top) {
  const std::vector<std::int64_t>& windows = settings.accumulate_by_block;
  if (windows.empty()) return;
  if (!settings.free_schedule)
    top.reject("accumulate",
               "by_block is for schedule = 'free'; in lockstep all blocks have "
               "the same windows: leave it out, or set batches");
  if (std::ssize(windows) != blocks)
    top.reject(
        "accumulate",
        fmt::format("by_block is a list of one number for each of the {} "
                    "blocks, not of {}",
                    blocks, windows.size()));
  for (const std::int64_t turns : by_phase)
    if (turns != by_phase.front())
      top.reject("accumulate",
                 "by_block holds for the whole run, and a phase of the "
                 "timetable changes `accumulate`: leave one of them out");
}

void check_free_plans(const Settings& settings, const Plans& plans,
                      const Fields& top) {
  if (const int block = changed_block(plans); block != 0)
    top.reject("timetable",
               fmt::format("buffer and slow_consumer hold for the whole run: "
                           "at block {} a phase changes them",
                           block));
  if (can_be_continued(plans.front())) return;
  if (settings.restart_on_failure)
    top.reject("on_failure",
               "what lies in a buffer, or waits to be sent or dropped, is in "
               "no checkpoint, so that a restart can't go on where it was: set "
               "'stop', or leave buffer and slow_consumer out");
  if (settings.probe_every > 0)
    top.reject("probe",
               "where a boundary has a buffer, or drops activations, blocks "
               "don't forward the batches of their turns, and there is no "
               "model to compare with: leave buffer and slow_consumer out");
}

}  // namespace sluice
