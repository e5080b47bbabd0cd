#pragma once

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/folder/run_folder.h"
#include "lib/metrics/record.h"
#include "lib/metrics/records.h"

namespace sluice {

/// The replicas without which a run has gone on before it saved that
/// checkpoint, which lacks what they would go on with. A run that is continued
/// from it has them begin where the others are: with the weights that these
/// agreed on, what replica 1 knows beside them (the optimizer's state), and
/// nothing under way. Empty where no policy goes on without a replica.
std::set<int> returning_replicas(const Experiment& experiment,
                                 const std::string& checkpoint);

/// The replicas that a run in that folder has lost at any time, and those that
/// it has not started with. Their record may end before a checkpoint that they
/// had saved.
ReturningReplicas replicas_with_gaps(const std::string& folder);

/// Throws UserError where a checkpoint of the run in that folder lacks a
/// replica of which no record says that it was lost: a file has gone.
void check_losses(const Experiment& experiment, const std::string& folder,
                  const std::string& checkpoint);

/// Records of the replicas that were lost in the part of the run that is
/// continued, and have not been there since. history: the records of that part,
/// in order. started: replicas that the run starts with; others don't return.
std::vector<records::ReturnedReplica> returned_replicas(
    const std::vector<Record>& history, const RestartPoint& start,
    int started = std::numeric_limits<int>::max());

}  // namespace sluice
