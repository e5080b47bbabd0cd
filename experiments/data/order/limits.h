#pragma once

#include <cstdint>

#include "experiments/data/samples/data_set.h"
#include "lib/base/config.h"

namespace sluice {

/// How many samples a run uses at most, for trials.
struct DataLimits {
  std::int64_t train = 0;       ///< 0: all
  std::int64_t evaluation = 0;  ///< of each split that is evaluated; 0: all

  void describe(Fields& fields);
};

/// The data set with no more samples than that, which are spread evenly over
/// each split, whatever its order, and keep its order. A split that has no more
/// stays as it is.
DataSet with_limits(DataSet data, const DataLimits& limits);

}  // namespace sluice
