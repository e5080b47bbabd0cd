#pragma once

#include "experiments/config/experiment.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// Whether replicas come to a centre when they are ready.
bool has_centres(const Experiment& experiment);

/// Decides which batches replicas have, where the config doesn't say: with
/// clocks of their own those that they come for, where that is possible.
void derive_dealing(Experiment& experiment);

/// The plans of all blocks and replicas, by phase of the timetable.
/// `model_norm`: wants_model_norm(). Throws UserError for what a policy wants
/// of its boundary or of its batches and can't have.
Plans plans_of(const Experiment& experiment, bool model_norm);

}  // namespace sluice
