#pragma once

#include "experiments/report/study/study.h"

namespace sluice::report {

/// The numbers that runs of one cell share: all but the seed, and but keys at
/// their defaults that configs of older programs lack.
ConfigNode numbers_of_cell(const ConfigNode& config);

/// Finds the axes of cells that no sweep has named, the keys in which their
/// configs differ, and gives each cell its number, its values and a label: its
/// method and no more than what tells it from the others.
void label_cells(Study& study);

}  // namespace sluice::report
