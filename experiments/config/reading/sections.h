#pragma once

#include <string>

#include "experiments/config/experiment.h"
#include "experiments/config/timetable.h"
#include "lib/base/config.h"

namespace sluice {

// The parts of an experiment's config beside the plain keys (settings.h). All
// throw UserError for what is wrong with them.

/// Reads [data] and opens the data set.
void read_data(Fields& top, const std::string& data_root,
               Experiment& experiment);

/// Reads [model], and draws what is random in its structure.
void read_model(Fields& top, Experiment& experiment);

/// Adds the built-in policies to those that a boundary may name.
void add_policies(Experiment& experiment);

/// What a config says beside data and model. Returns its timetable.
Timetable read_rest(Fields& top, Experiment& experiment);

}  // namespace sluice
