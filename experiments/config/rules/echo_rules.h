#pragma once

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// Throws UserError for what data.echo doesn't go with, and for auxiliary
/// variables of an echo (memory = 'echo') that no pass would have left. To
/// be called with the plans made.
void check_echo(const Experiment& experiment, const Fields& top);

}  // namespace sluice
