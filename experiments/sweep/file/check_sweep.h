#pragma once

#include <string>

#include "experiments/sweep/file/sweep.h"

namespace sluice::sweep {

/// Throws UserError unless cells can be made of the sweep: of its kind, axes
/// and listed cells.
void check_sweep(const Sweep& sweep);

/// Throws UserError for a setting of the command line that a cell would
/// overwrite in silence.
void refuse_overwritten(const std::string& setting, const Sweep& sweep);

}  // namespace sluice::sweep
