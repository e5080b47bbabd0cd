#pragma once

#include "experiments/report/study.h"

namespace sluice {

/// Finds the axes of cells that no sweep has named, the keys in which their
/// configs differ, and gives each cell its number, its values and a label: its
/// method and no more than what tells it from the others.
void label_cells(Study& study);

}  // namespace sluice
