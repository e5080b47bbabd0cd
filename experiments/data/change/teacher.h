#pragma once

#include <string>

#include "experiments/data/samples/data_set.h"
#include "lib/base/config.h"

namespace sluice {

/// A teacher whose logits are targets (Hinton, Vinyals, Dean 2015,
/// arXiv:1503.02531).
struct Teacher {
  std::string logits = {};  ///< safetensors file; empty: no teacher
  double temperature = 1;
  double weight = 1;

  void describe(Fields& fields);
};

/// The data set, of whose training samples each has shares of classes as its
/// label (Targets::shares):
///   weight * softmax(logits / temperature) + (1 - weight) * its own class.
/// The file has "logits" [size, classes] and "labels" [size] of the training
/// split, in its order, as `sluice eval --train --logits` writes them; it is
/// read with the samples. Samples without random changes keep their class. No
/// file changes nothing. Throws UserError for texts, for targets that aren't
/// classes, and for a file of other samples.
DataSet with_teacher(DataSet data, const Teacher& teacher);

}  // namespace sluice
