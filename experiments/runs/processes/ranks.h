#pragma once

#include <chrono>
#include <exception>
#include <set>
#include <string>
#include <utility>

#include "experiments/config/experiment.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/runs/ranks/rank.h"
#include "transport/wire/secret.h"

namespace sluice {

/// Throws UserError unless the experiment can be run by so many ranks: one per
/// block, engine = "processes", and over TLS, with a secret that can be read,
/// when they are on several hosts.
void check_rank(const Rank& rank, const Experiment& experiment);

/// Time that rank 0 stays after its failure, for ranks that would wait for it;
/// the others look for rank 0 for twice as long.
inline constexpr std::chrono::seconds kTimeToCall(10);
/// Lets them know why this rank has failed, before it has met them: on one host
/// by a Note, on several by a call (ended_call.h), unless there is no address
/// or no secret for that.
void tell_ranks(const Rank& rank, const std::exception& error);

/// For rank 0: which ranks of its host have failed before it has met them.
class EndedRanks {
 public:
  explicit EndedRanks(Rank rank) : rank_(std::move(rank)) {}
  /// Looks anew. Why one has, if there is one since the last time; else empty.
  std::string look();
  int count() const { return static_cast<int>(ended_.size()); }
  bool contain(int number) const { return ended_.contains(number); }

 private:
  const Rank rank_;
  std::set<int> ended_;
};

/// The secret of the run. On one host it is new, and rank 0 posts it in a Note.
/// On several it is in the file that the environment's SLUICE_SECRET_FILE
/// names, or in SLUICE_SECRET. Throws UserError.
Secret secret_of(const Rank& rank);

/// Where rank 0 listens: Rank::master on several hosts, else on loopback.
std::string host_of(const Rank& rank);

/// The run's folder, which all hosts must see, and whether it is continued.
struct RankArguments {
  std::string folder;
  bool resume = false;
};

/// What a rank above 0 does: it joins rank 0 as the worker of its block.
/// Returns the exit status; throws what goes wrong before it has joined. Until
/// then a signal ends the process; afterwards rank 0 decides what it means.
int run_rank(const Rank& rank, const Experiment& experiment,
             const RankArguments& arguments, StopSignals& signals);

}  // namespace sluice
