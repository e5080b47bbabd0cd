#pragma once

#include <span>

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// A new data set is one source file and one row.
std::span<const DataSetRow> data_sets();

}  // namespace sluice
