#pragma once

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// CIFAR-10 from root/cifar-10-batches-bin: data_batch_{1..5}.bin and
/// test_batch.bin.
MakeDataSet configure_cifar10(Fields& options);

/// From root/cifar-100-binary: train.bin and test.bin; the option `labels` says
/// which of a record's two labels is the class.
MakeDataSet configure_cifar100(Fields& options);

}  // namespace sluice
