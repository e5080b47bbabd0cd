#pragma once

#include "experiments/data/samples/data_set.h"
#include "lib/base/config.h"

namespace sluice {

/// Training labels that are replaced, so that a network can only learn them by
/// heart (Zhang et al. 2017, arXiv:1611.03530).
struct LabelNoise {
  /// Probability with which a label is replaced by one that is drawn from all
  /// classes alike, so perhaps by itself.
  double share = 0;

  void describe(Fields& fields);
};

/// The data set with such labels in its training split. Which are replaced, and
/// by what, follows from (seed, position of the sample) alone: every epoch,
/// order, batch size and validation split sees the same. A share of 0 changes
/// nothing. Throws UserError for texts.
DataSet with_label_noise(DataSet data, const LabelNoise& noise);

}  // namespace sluice
