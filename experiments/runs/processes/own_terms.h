#pragma once

#include <cstdint>

#include "experiments/config/experiment.h"
#include "experiments/runs/ranks/terms.h"

namespace sluice {

/// Terms that this process was started with. Reads the data files for their
/// fingerprint. `first_turn` is that of a run that is continued, else 0.
Terms terms_of(const Experiment& experiment, std::int64_t first_turn);

}  // namespace sluice
