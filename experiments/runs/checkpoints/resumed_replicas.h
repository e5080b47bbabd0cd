#pragma once

#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/folder/run_folder.h"

namespace sluice {

/// Overrides by which the config's replicas take up where those of the
/// checkpoint ended; none where they are the same. Throws UserError, with the
/// remedy, where replicas of that policy can't.
std::vector<std::string> overrides_for_replicas(const Experiment& now,
                                                const RestartPoint& from);

/// Throws UserError unless the policy is the run's own, where its replicas go
/// on: what they keep by one policy is no use to another.
void check_same_policy(const ReplicaSettings& run, const ReplicaSettings& now,
                       const RestartPoint& from);

/// Throws UserError unless the replicas of the experiment are those of the
/// checkpoint, or begin with its turn.
void check_replicas(const Experiment& experiment,
                    const std::string& checkpoint);

/// Throws UserError unless the checkpoint is of as many replicas, which a
/// program's own loop goes on with.
void check_same_replicas(const Experiment& experiment,
                         const std::string& checkpoint);

/// Throws UserError where the config of a run that begins is that of one which
/// was continued.
void check_begin(const Experiment& experiment);

/// Description of the change of a run's number of replicas there; empty: none.
std::string describe_replicas(const Experiment& experiment,
                              const std::string& checkpoint);

}  // namespace sluice
