#include "experiments/config/rules/assist_rules.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "lib/schedules/plan/plan.h"
#include "lib/tensors/tensors.h"

namespace sluice {
namespace {

/// A batch that block 1 applies d turns after its forward is known one turn
/// later, whichever of the two the turn begins with.
std::int64_t least_lag(const Experiment& experiment) {
  std::int64_t least = 1;
  for (const RunPlan& plan : experiment.plans)
    least = std::max(least, plan.blocks.front().delay + 1);
  return least;
}

void check_samples_of_assistant(const Experiment& experiment,
                                const Fields& top) {
  const SampleSpec& sample = experiment.data->sample;
  const auto refuse = [&](const char* what) {
    top.reject("data",
               fmt::format("assist predicts a sample's loss from its input and "
                           "class, and {}: leave assist out",
                           what));
  };
  if (sample.is_text) refuse("a text has a loss at every place");
  if (sample.targets == Targets::values)
    refuse("the targets of this data set are numbers");
  if (sample.targets == Targets::shares)
    refuse("data.mixup and data.teacher train on shares of classes");
  if (experiment.model.trains_on_pairs)
    refuse("this model trains on pairs of right and wrong labels");
}

void check_schedule_of_assistant(const Experiment& experiment,
                                 const Fields& top) {
  const auto refuse = [&](const char* key, const char* reason,
                          const char* remedy) {
    top.reject(key,
               fmt::format("{}: {}, or leave data.assist out", reason, remedy));
  };
  constexpr const char* kFixedLag =
      "data.assist draws a batch in lockstep by the losses of those a fixed "
      "number of turns before it";
  const bool is_free = experiment.assist.is_free;
  if (experiment.free_schedule && !is_free)
    refuse("schedule", kFixedLag, "set data.assist.schedule = 'free'");
  if (experiment.pipeline.order != "turns" ||
      experiment.pipeline.micro_batches != 1)
    refuse("pipeline",
           "data.assist has the losses of a whole turn come down at once",
           "set order = 'turns' and micro_batches = 1");
  if (!experiment.replicas.counts.empty() && !is_free)
    refuse("replicas", kFixedLag,
           "set count to one number, or data.assist.schedule = 'free'");
  if (experiment.probe_every > 0)
    top.reject("probe",
               "draws the batches of the run a second time, and with "
               "data.assist they depend on its losses: leave one of them out");
}

/// An assistant of each replica draws from its share of the samples.
void check_shares_of_assistant(const RunPlan& plan, const Fields& top) {
  const auto refuse = [&](const char* reason, const char* remedy) {
    top.reject("replicas",
               fmt::format("data.assist draws each replica's batches from its "
                           "share of the samples, and {}: {}, or leave "
                           "data.assist out",
                           reason, remedy));
  };
  const BlockPlan& first = plan.blocks.front();
  if (first.micro_batches.by_arrival)
    refuse("a dealer gives out no shares", "set deal = 'shares'");
  if (first.exchange.quorum.is_there())
    refuse("with backup or quorum turns of a share are left out",
           "set backup = 0 and no quorum");
  if (first.exchange.adopts.every > 0)
    refuse("with adopt_every the losses that come down are for the replicas",
           "set adopt_every = 0");
}

/// Refuses policies that keep something for each sample, which must then come
/// once in every epoch.
void check_nothing_is_kept(const RunPlan& plan, const Fields& top) {
  for (const BlockPlan& block : plan.blocks)
    if (std::find(block.lower.keeps.begin(), block.lower.keeps.end(),
                  kSampleIds) != block.lower.keeps.end())
      top.reject(
          "boundary",
          fmt::format("data.assist skips samples in some epochs and has others "
                      "come twice, and the policy above block {} keeps "
                      "something of every sample: set memory = 'batch', or "
                      "leave data.assist out",
                      block.block));
}

/// Whether the losses that come to a block with its gradient go down with the
/// one that it sends.
void check_way_of_losses(const RunPlan& plan, const Fields& top) {
  for (const BlockPlan& block : plan.blocks) {
    const bool is_last = block.block == plan.depth();
    const bool comes = is_last || block.gradients.from_above;
    const bool goes = block.block == 1 || block.gradient_to_below();
    if (comes && goes && block.rounds() == 1 && !block.forwards_data())
      continue;
    top.reject(
        "boundary",
        fmt::format("data.assist has the losses of the last block come down "
                    "with the gradients, batch by batch, and at block {} they "
                    "don't: choose policies whose gradients come from above, "
                    "such as 'backprop' or 'delayed_gradient', or leave "
                    "data.assist out",
                    block.block));
  }
}

}  // namespace

std::int64_t lag_of_assistant(const Experiment& experiment) {
  return experiment.assist.lag > 0 ? experiment.assist.lag
                                   : least_lag(experiment);
}

void check_assistant(const Experiment& experiment, const Fields& top) {
  if (!experiment.assist.is_on()) return;
  check_samples_of_assistant(experiment, top);
  check_schedule_of_assistant(experiment, top);
  for (const RunPlan& plan : experiment.plans) {
    check_shares_of_assistant(plan, top);
    check_nothing_is_kept(plan, top);
    check_way_of_losses(plan, top);
  }
  const std::int64_t least = least_lag(experiment);
  if (lag_of_assistant(experiment) < least)
    top.reject("data",
               fmt::format("assist.lag = {}, and with this schedule the losses "
                           "of a batch are known {} turns later: set it to at "
                           "least that, or to 0",
                           experiment.assist.lag, least));
}

}  // namespace sluice
