#pragma once

#include <string>

#include "experiments/report/study/study.h"

namespace sluice::report {

/// The cells of a sweep's folder, as its sweep.json lists them, with their
/// runs; `title` is the sweep's name. Throws UserError when that file or a run
/// is damaged.
Study read_sweep(const std::string& folder);

}  // namespace sluice::report
