#pragma once

#include <cstdint>

#include "experiments/data/samples/data_set.h"
#include "lib/base/config.h"

namespace sluice {

/// Training samples that every evaluation sees beside the other splits, so that
/// what a network has learned by heart can be told from what it has understood.
struct TrainingPart {
  std::int64_t samples = 0;

  void describe(Fields& fields);
};

/// The data set with a training part of so many samples, which are spread
/// evenly over the training split, whatever its order; they are trained on like
/// the others. 0 samples change nothing. Throws UserError when there are fewer.
DataSet with_training_part(DataSet data, const TrainingPart& part);

}  // namespace sluice
