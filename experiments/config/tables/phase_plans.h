#pragma once

#include "experiments/config/experiment.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// Whether replicas come to a centre when they are ready.
bool has_centres(const Experiment& experiment);

/// The plans of all blocks and replicas, by phase of the timetable.
/// `model_norm`: wants_model_norm(). Throws UserError for what a policy wants
/// of its boundary or of its batches and can't have.
Plans plans_of(const Experiment& experiment, bool model_norm);

}  // namespace sluice
