#pragma once

#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/folder/run_folder.h"

namespace sluice {

/// Compares a run that is resumed with what it was: its keys by their classes
/// (resume_classes.h), its data, and who computed it. Returns a line for each
/// that differs or can't be compared. Throws UserError, with the remedy, for
/// what a resume refuses.
std::vector<std::string> check_resume(const Experiment& experiment,
                                      const std::string& folder,
                                      const RestartPoint& from);

}  // namespace sluice
