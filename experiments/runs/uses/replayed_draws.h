#pragma once

#include <memory>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/data/change/assistant.h"
#include "experiments/runs/uses/replay.h"
#include "experiments/runs/uses/saved_hashes.h"

namespace sluice {

/// What the assistants of a run with data.assist.schedule = "free" had learned
/// from before each draw, by the run's metrics.jsonl.
std::shared_ptr<const RecordedLessons> recorded_lessons_of(
    const std::string& run_folder);

/// Repeats a run whose blocks were in lockstep, and whose assistant was not:
/// experiment.recorded_lessons is set. Stops at its last checkpoint.
ReplayResult replay_in_lockstep(Experiment experiment, SavedHashes saved);

}  // namespace sluice
