#pragma once

#include <cstdint>

#include "experiments/data/samples/data_set.h"
#include "lib/base/config.h"

namespace sluice {

/// What is held back of the training samples, for whatever is chosen by an
/// evaluation. Which samples those are depends on these options and on how many
/// samples there are, not on the seed of a run: so seeds stay comparable.
struct ValidationOptions {
  double amount = 0;  ///< below 1: a share of the samples; else a number
  std::int64_t seed = 0;

  void describe(Fields& fields);
};

/// Reads the keys `validation` and `validation_seed` of a data set's options.
ValidationOptions read_validation(Fields& options);

/// The data set with so many of its training samples as its validation split;
/// both splits keep the order of the samples. An amount of 0 changes nothing.
/// Throws UserError when no sample would be left for one of them.
DataSet with_validation(DataSet data, const ValidationOptions& options);

}  // namespace sluice
