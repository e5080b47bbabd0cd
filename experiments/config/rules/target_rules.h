#pragma once

#include <string_view>

#include "experiments/config/experiment.h"

namespace sluice {

/// Throws UserError for what doesn't go with labels that are numbers
/// (regression) or shares of classes (mixup): losses and models that want
/// classes, and choices by an accuracy that there isn't. Heads and policies say
/// so by themselves (check_labels_are_classes()). `loss`: the name of its row.
void check_targets(const Experiment& experiment, std::string_view loss,
                   const Fields& top);
/// Checks the phases of a timetable in the same way.
void check_switches(const Experiment& experiment, const Fields& top);

}  // namespace sluice
