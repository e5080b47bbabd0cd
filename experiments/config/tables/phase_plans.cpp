#include "experiments/config/tables/phase_plans.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/tables/block_layers.h"
#include "experiments/config/tables/lengths.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/traits.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {
namespace {

/// A block with a layer that has no inverse keeps its inputs: nothing is to
/// come back for it.
void keep_what_has_no_inverse(const Experiment& experiment, RunPlan& plan) {
  for (std::size_t i = 0; i + 1 < plan.blocks.size(); ++i) {
    BlockPlan& block = plan.blocks[i];
    if (!block.weights.rebuilds ||
        is_reversible(experiment, by_block(experiment.ranges, block.block)))
      continue;
    block.weights.rebuilds = false;
    plan.blocks[i + 1].gradients.returns_input = false;
  }
}

/// What the replicas of each block sum, and when.
ReplicaExchange exchange_of(const Experiment& experiment, bool model_norm) {
  const ReplicaKind& kind = experiment.replicas.kind;
  ReplicaExchange exchange = kind.exchange;
  exchange.graph.seed = experiment.seed;
  exchange.served = has_centres(experiment);
  exchange.clips_own =
      model_norm && exchange.what == ExchangedTensors::gradients &&
      experiment.optimizers.at(0).clip_at == ClipPlace::replica;
  if (exchange.served) {
    exchange.quorum =
        quorum_of(kind, static_cast<int>(experiment.replicas.count));
    exchange.agrees = true;
  }
  if (experiment.replicas.count > 1) {
    exchange.adopts = rhythm_of(kind.adopt_every, experiment);
    exchange.agrees =
        exchange.agrees || (kind.mean_statistics && has_batch_norm(experiment));
  }
  return exchange;
}

/// Whether a policy keeps what it keeps for batches that come again unchanged.
bool is_of_echo(const BoundaryPolicy& boundary) {
  const ConfigNode* const memory = boundary.config.find("memory");
  return memory != nullptr &&
         *memory == ConfigNode{.value = std::string("echo")};
}

/// Checks that a sample can be found again, where something is kept of it;
/// `who` keeps it: "its policy". `remedy`: what else would do.
void check_sample_ids(const Experiment& experiment, int block,
                      std::string_view who, std::string_view remedy) {
  if (!experiment.data)
    throw UserError(
        "boundary {}: {} keeps something of every sample, and batches that are "
        "fed in have no samples with numbers",
        block, who);
  if (experiment.data->varies)
    throw UserError(
        "boundary {}: {} keeps something of every sample, which must be the "
        "same in every epoch: leave out data.augment and data.mixup (windows "
        "of a text move too: data.windows = 'fixed'){}",
        block, who, remedy);
  if (experiment.replicas.count > 1)
    throw UserError(
        "boundary {}: {} keeps something of every sample, and replicas don't "
        "see the same ones in every epoch: set replicas.count = 1",
        block, who);
}

/// Checks a codec that remembers samples at both ends, each of which must see
/// all messages, and adds what it wants to know to the boundary.
void add_codec(const Experiment& experiment, int block, Traits& traits) {
  const BoundaryCodecs codecs = codecs_above(experiment, block);
  if (!codecs.up || !codecs.up->wants_samples()) return;
  const auto refuse = [&](const std::string& why) {
    throw UserError(
        "boundary {}: codec '{}' keeps the last activation of every sample, "
        "{}: choose another codec",
        block, codecs.up->name(), why);
  };
  if (experiment.assist.is_on())
    refuse("and data.assist has samples come twice in a batch");
  if (!traits.inbox.is_plain())
    refuse(
        "and with a buffer or slow_consumer the block above doesn't see each "
        "batch once");
  if (traits.lower.sweeps.are_several())
    refuse("and with several steps the policy sends batches several times");
  check_sample_ids(experiment, block,
                   fmt::format("its codec '{}'", codecs.up->name()), "");
  codecs.up->sender(codec_site(experiment, block));  // whether it can be made
  std::vector<std::string>& names = traits.lower.attachments;
  if (std::find(names.begin(), names.end(), kSampleIds) == names.end())
    names.emplace_back(kSampleIds);
}

void check_attachments(const Experiment& experiment, int block,
                       const BoundaryPolicy& boundary,
                       const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == kSampleIds) {
      if (!experiment.data || !is_of_echo(boundary))
        check_sample_ids(experiment, block, "its policy",
                         ", or set data.echo and memory = 'echo'");
    } else if (name != kRawInput) {
      throw UserError(
          "boundary {}: a batch has no attachment '{}'; there are: {}, {}",
          block, name, kRawInput, kSampleIds);
    }
  }
}

}  // namespace

bool has_centres(const Experiment& experiment) {
  return experiment.free_schedule && experiment.replicas.count > 1 &&
         experiment.replicas.kind.make_centre != nullptr;
}

namespace {

/// Whether replicas may have as many batches as they come for.
bool can_follow_speed(const Experiment& experiment) {
  const ReplicaKind& kind = experiment.replicas.kind;
  const bool waits_for_turns =
      kind.waits && kind.exchange.what == ExchangedTensors::gradients;
  const auto is_one = [](std::int64_t window) { return window == 1; };
  const auto& by_phase = experiment.accumulate_by_phase;
  const auto& by_block = experiment.accumulate_by_block;
  return has_centres(experiment) && !waits_for_turns &&
         !kind.exchange.visits_partners &&
         std::all_of(by_phase.begin(), by_phase.end(), is_one) &&
         std::all_of(by_block.begin(), by_block.end(), is_one);
}

}  // namespace

void derive_dealing(Experiment& experiment) {
  ReplicaSettings& replicas = experiment.replicas;
  if (replicas.is_dealing_derived && can_follow_speed(experiment))
    replicas.dealing = Dealing::arrival;
  experiment.length.has_shares = replicas.dealing == Dealing::shares;
}

Plans plans_of(const Experiment& experiment, bool model_norm) {
  const PipelineSettings& pipeline = experiment.pipeline;
  Plans plans;
  for (std::size_t i = 0; i < experiment.phases.size(); ++i) {
    const Boundaries& phase = experiment.phases[i];
    std::vector<Traits> traits;
    for (int block = 1; block < experiment.blocks(); ++block) {
      const BoundaryPolicy& boundary = by_block(phase, block);
      const MakeBoundary& make = boundary.make;
      const BoundarySite site = site_of(experiment, block);
      traits.push_back(make.lower(site)->traits());
      check_attachments(experiment, block, boundary,
                        traits.back().lower.attachments);
      add_codec(experiment, block, traits.back());
      // Made once, to see that the upper end can be made.
      if (traits.back().upper != UpperEnd::plain) make.upper(site);
    }
    RunPlan one = experiment.schedule_row().make(
        traits, {.model_norm = model_norm,
                 .accumulate = experiment.accumulate_by_phase.at(i),
                 .micro_batches = experiment.micro_batches,
                 .added = experiment.delay,
                 .window_weights = pipeline.weights,
                 .flush = pipeline.flush,
                 .recompute = pipeline.recompute,
                 .executors = static_cast<int>(pipeline.executors),
                 .in_flight = experiment.in_flight,
                 .priority = experiment.priority,
                 .accumulate_by_block = experiment.accumulate_by_block});
    keep_what_has_no_inverse(experiment, one);
    const ReplicaSettings& replicas = experiment.replicas;
    plans.push_back(
        replicas.are_uneven()
            ? with_uneven_replicas(one, replicas.counts,
                                   exchange_of(experiment, model_norm))
            : with_replicas(one, static_cast<int>(replicas.count),
                            exchange_of(experiment, model_norm),
                            replicas.kind.stagger, replicas.dealing));
    for (BlockPlan& block : plans.back().blocks)
      block.micro_batches.deals = experiment.replicas.deals();
    // The check of a list of another length comes later.
    const std::vector<std::int64_t>& every = replicas.kind.every_of;
    for (BlockPlan& block : plans.back().blocks)
      if (std::ssize(every) == replicas.count)
        block.exchange.every = by_block(every, block.replica);
  }
  return plans;
}

}  // namespace sluice
