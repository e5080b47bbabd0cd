#pragma once

#include "experiments/config/settings.h"
#include "lib/base/config.h"
#include "lib/schedules/plan/added_delay.h"

namespace sluice {

/// Reads `[delay]`.
void describe_delay(Fields& fields, AddedDelay& delay);

/// Throws UserError where `[delay]` doesn't go with the number of blocks, the
/// schedule or the order of the pipeline.
void check_delay(const Settings& settings, int blocks, const Fields& top);

}  // namespace sluice
