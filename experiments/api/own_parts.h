#pragma once

#include "experiments/api/network_options.h"

namespace sluice {

/// Adds the heads, losses, optimizers and data sets of the options to the
/// tables of this process (lib/base/added_rows.h), where configs find them by
/// name. A row that is there already, with the same function, stays. Throws
/// UserError for a name that something else has.
void add_own_parts(const NetworkOptions& options);

}  // namespace sluice
