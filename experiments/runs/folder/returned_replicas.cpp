#include "experiments/runs/folder/returned_replicas.h"

#include <cstdint>
#include <map>
#include <variant>

#include "experiments/config/files/toml.h"
#include "experiments/runs/folder/run_reader.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

std::set<int> returning_replicas(const Experiment& experiment,
                                 const std::string& checkpoint) {
  std::set<int> returning;
  if (checkpoint.empty() || !survives_loss(experiment.plans.front()))
    return returning;
  const int started = experiment.started_seats() / experiment.blocks();
  for (int replica = 2; replica <= started; ++replica)
    if (!has_replica(checkpoint, replica)) returning.insert(replica);
  return returning;
}

namespace {

std::set<int> lost_replicas(const std::string& folder) {
  RunReader reader(folder);
  std::set<int> replicas;
  for (const auto& lost : reader.next<records::LostReplica>())
    replicas.insert(lost.replica);
  return replicas;
}

/// A number of the table `replicas` in the run's config.
std::int64_t number_of_replicas(const std::string& folder, const char* key,
                                std::int64_t otherwise) {
  const ConfigNode config = read_toml_file(config_of_run(folder));
  const ConfigNode* replicas = config.find("replicas");
  const ConfigNode* found = replicas == nullptr ? nullptr : replicas->find(key);
  const auto* number =
      found == nullptr ? nullptr : std::get_if<std::int64_t>(&found->value);
  return number == nullptr ? otherwise : *number;
}

}  // namespace

ReturningReplicas replicas_with_gaps(const std::string& folder) {
  ReturningReplicas all{lost_replicas(folder),
                        number_of_replicas(folder, "count", 1)};
  const std::int64_t started = number_of_replicas(folder, "start_with", 0);
  if (started > 0)
    for (std::int64_t replica = started + 1; replica <= all.of; ++replica)
      all.replicas.insert(static_cast<int>(replica));
  return all;
}

void check_losses(const Experiment& experiment, const std::string& folder,
                  const std::string& checkpoint) {
  std::set<int> unexplained = returning_replicas(experiment, checkpoint);
  if (unexplained.empty()) return;
  for (const int lost : lost_replicas(folder)) unexplained.erase(lost);
  if (unexplained.empty()) return;
  throw UserError(
      "{}: lacks files of what replica {} goes on with, and no record says "
      "that it was lost: continue from a whole checkpoint, or begin a run with "
      "initial_weights",
      checkpoint, *unexplained.begin());
}

std::vector<records::ReturnedReplica> returned_replicas(
    const std::vector<Record>& history, const RestartPoint& start,
    int started) {
  std::map<int, records::LostReplica> lost_at;
  for (const Record& record : history) {
    if (const auto lost = record.as<records::LostReplica>())
      lost_at[lost->replica] = *lost;
    if (const auto returned = record.as<records::ReturnedReplica>())
      lost_at.erase(returned->replica);
    if (const auto joined = record.as<records::JoinedReplica>())
      lost_at.erase(joined->replica);
  }
  std::vector<records::ReturnedReplica> all;
  for (const auto& [replica, lost] : lost_at) {
    if (replica > started) continue;
    const bool is_own = !start.returning.contains(replica);
    // Others have done its work where it had no share.
    const bool leaves_out = !is_own && lost.turns_left_out > 0;
    all.push_back({.turn = start.turn,
                   .replica = replica,
                   .turns_left_out = leaves_out ? start.turn - lost.turn : 0,
                   .weights = is_own ? "own" : "agreed"});
  }
  return all;
}

}  // namespace sluice
