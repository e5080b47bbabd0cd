#include "experiments/runs/folder/returned_replicas.h"

#include <cstdint>
#include <map>

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
  for (int replica = 2; replica <= experiment.replicas.count; ++replica)
    if (!has_replica(checkpoint, replica)) returning.insert(replica);
  return returning;
}

std::set<int> lost_replicas(const std::string& folder) {
  RunReader reader(folder);
  std::set<int> replicas;
  for (const auto& lost : reader.next<records::LostReplica>())
    replicas.insert(lost.replica);
  return replicas;
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
    const std::vector<Record>& history, const RestartPoint& start) {
  std::map<int, records::LostReplica> lost_at;
  for (const Record& record : history) {
    if (const auto lost = record.as<records::LostReplica>())
      lost_at[lost->replica] = *lost;
    if (const auto returned = record.as<records::ReturnedReplica>())
      lost_at.erase(returned->replica);
  }
  std::vector<records::ReturnedReplica> all;
  for (const auto& [replica, lost] : lost_at) {
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
