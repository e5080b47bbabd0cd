#pragma once

#include <string>

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// What a data set holds, in one line for people: samples of each split,
/// classes or vocabulary, and DataSet::found(). "Data: 5 training and 2 test
/// samples, 2 classes; train: ...; left out: 2 .webp".
std::string found_line(const DataSet& data);

}  // namespace sluice
