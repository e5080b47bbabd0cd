#pragma once

#include "experiments/config/experiment.h"
#include "lib/base/config.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// Whether gradients are clipped by the norm of the whole model. Throws
/// UserError unless all blocks want it so, and every boundary brings them.
bool wants_model_norm(const Experiment& experiment, const Fields& top);

/// Throws UserError where a boundary has a policy that cuts, and the model
/// can't be cut for gradients.
void check_policies(const Experiment& experiment, const Fields& top);

/// Throws UserError where the optimizers, layers or precision of the experiment
/// don't go with the delays and weights of a plan.
void check_plan(const Experiment& experiment, const RunPlan& plan,
                const Fields& top);

/// Throws UserError where nmf has replicas or a delay beside it. Factors move
/// by the batches of their own replica, and no exchange brings them together;
/// and which row of them a batch in flight has is in no checkpoint.
void check_factors(const Experiment& experiment, const Fields& top);

/// Throws UserError where a policy that changes evaluations holds for a part of
/// the run.
void check_evaluations(const Experiment& experiment, const Fields& top);

/// Throws UserError unless an average is the same for all blocks, and of
/// replicas that stay alike: evaluations and checkpoints are of all blocks
/// together.
void check_averages(const Experiment& experiment, const Fields& top);

}  // namespace sluice
