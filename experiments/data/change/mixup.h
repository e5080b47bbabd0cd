#pragma once

#include "experiments/data/samples/data_set.h"
#include "lib/base/config.h"

namespace sluice {

/// Mixtures of training samples (Zhang et al. 2018, "mixup: Beyond Empirical
/// Risk Minimization", arXiv:1710.09412, and the authors' code).
struct Mixup {
  /// alpha: a batch's share is drawn from Beta(alpha, alpha). 0: no mixtures.
  double alpha = 0;

  void describe(Fields& fields);
};

/// The data set, of whose training batches each becomes
///   share * batch + (1 - share) * the same batch in another order,
/// inputs and labels; share and order are keyed by (seed, epoch, the batch's
/// first sample). Labels become shares of classes (Targets::shares), so that
/// the cross entropy is the mixture of both labels'. Samples without
/// random changes are as they were. An alpha of 0 changes
/// nothing. Throws UserError for texts and for targets that are numbers.
DataSet with_mixup(DataSet data, const Mixup& mixup);

}  // namespace sluice
