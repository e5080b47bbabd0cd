#pragma once

#include "experiments/config/settings.h"
#include "lib/base/config.h"

namespace sluice {

/// Throws UserError when the settings ask for blocks that run free together
/// with what needs turns that mean the same for all blocks.
void check_free_schedule(const Settings& settings, bool model_norm,
                         bool has_timetable, const Fields& top);

}  // namespace sluice
