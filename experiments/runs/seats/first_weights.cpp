#include "experiments/runs/seats/first_weights.h"

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "experiments/runs/checkpoints/public_names.h"
#include "experiments/runs/checkpoints/repartition.h"
#include "experiments/runs/folder/returned_replicas.h"
#include "lib/blocks/adapters.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/saved_deals.h"
#include "lib/workers/replica_sync.h"

namespace sluice {
namespace {

/// Variables of the samples of another run, which counted other epochs, are no
/// weights.
bool is_of_samples(std::string_view name) {
  return name.starts_with("variables.");
}

/// The model's own weights must all be there; those of heads are taken when
/// they are.
void take_initial_weights(const Experiment& experiment, Seat& seat) {
  const auto [found, source] =
      find_weights(experiment, experiment.initial_weights);
  check_cut_layers(experiment, found, source);
  check_adapters(experiment, found, source);
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : found) names.insert(name);
  NamedTensors wanted;
  for (auto& [name, tensor] : seat.weights())
    if (name.starts_with("layers.") ||
        (names.contains(name) && !is_of_samples(name)))
      wanted.emplace_back(name, tensor);
  copy_by_name(found, without_missing_adapters(seat.copied(), found), source);
  copy_by_name(found, without_missing_adapters(wanted, found), source);
}

/// Whether all seats go on with their own state.
bool has_own_seats(const Experiment& experiment,
                   const std::string& checkpoint) {
  const ReplicaSettings& replicas = experiment.replicas;
  if (deals_of(checkpoint).replicas != replicas.count ||
      counts_of(checkpoint) != replicas.counts)
    return false;
  // The blocks of a replica depend on the cut where replicas are uneven.
  return !replicas.are_uneven() ||
         is_cut_so(experiment, cut_of({load_state(checkpoint), checkpoint}));
}

/// What the replicas are to agree on: the weights of the centre, where a moving
/// average stands for these in the checkpoint.
void take_centre_weights(const NamedTensors& state, NamedTensors& weights) {
  const NamedTensors centre = centre_weights_in(state);
  std::map<std::string_view, const at::Tensor*> by_name;
  for (const auto& [name, tensor] : centre) by_name[name] = &tensor;
  for (auto& [name, tensor] : weights)
    if (const auto found = by_name.find(name); found != by_name.end())
      tensor = *found->second;
}

/// Restores a seat, with another cut where the experiment has one. Other
/// replicas than those that were saved all begin with what these agreed on, and
/// the first one's state; so do those that were lost.
void restore(const Experiment& experiment, const std::string& checkpoint,
             Seat& seat) {
  const std::set<int> returning = returning_replicas(experiment, checkpoint);
  const bool returns = returning.contains(seat.replica());
  const bool is_own = !returns && has_own_seats(experiment, checkpoint);
  NamedTensors weights = is_own ? load_own_weights(checkpoint, seat.replica())
                                : load_weights(checkpoint);
  NamedTensors state = is_own ? load_own_state(checkpoint, seat.replica())
                              : load_state(checkpoint);
  check_cut_layers(experiment, weights, checkpoint);
  std::vector<std::int64_t> cut;
  // Otherwise it was looked at, and a replica may have some of the blocks only.
  if (!is_own || !experiment.replicas.are_uneven())
    cut = cut_of({state, checkpoint});
  if (returns) take_centre_weights(state, weights);
  const bool is_cut = !is_cut_so(experiment, cut);
  // Batches in flight in the checkpoint belong to other replicas.
  if (is_cut || returns)
    state = state_for_block(experiment, seat.block(), state, checkpoint);
  // An assistant learns from its replica's losses alone: another begins anew.
  if (!is_own && seat.replica() > 1)
    std::erase_if(state, [](const auto& named) {
      return named.first.starts_with("assistant.");
    });
  if (is_cut) {
    // Sources of new boundaries begin beside the weights that were saved.
    copy_by_name(weights, seat.copied(), checkpoint);
    add_new_sources(experiment, cut, seat.weights(), weights);
    add_new_sources(experiment, cut, seat.state(), state);
  }
  const std::string source =
      seat.replica() == 1 || !is_own
          ? checkpoint
          : fmt::format("{}/replica-{}", checkpoint, seat.replica());
  seat.restore(weights, state, source);
  for (const int replica : returning) seat.rejoin(replica);
}

}  // namespace

void set_first_weights(const Experiment& experiment, const RunFiles& files,
                       Seat& seat) {
  if (!files.resume.empty()) {
    restore(experiment, files.resume, seat);
  } else if (!experiment.initial_weights.empty()) {
    take_initial_weights(experiment, seat);
  }
}

}  // namespace sluice
