#pragma once

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// ImageNet at 32x32 pixels (Chrabaszcz et al., arXiv:1707.08819), in the .npz
/// files that are published beside the pickled ones, all in memory (4 GB):
/// root/imagenet32/train_data_batch_{1..10}.npz and val_data.npz, each with
/// `data`, uint8 [N, 3072], and `labels`, integers [N] from 1 to 1000.
MakeDataSet configure_imagenet32(Fields& options);

}  // namespace sluice
