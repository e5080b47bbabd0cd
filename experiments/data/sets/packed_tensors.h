#pragma once

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// Tensors of one's own: a .safetensors file with the tensors `inputs` and
/// `targets`, or a .npy file for each. Inputs, [N, C] or [N, C, H, W] of any
/// type, become float32; they are read sample by sample and may be larger than
/// the memory. Targets that are integers, [N], are classes; those that are
/// real, [N] or [N, D], are numbers to be predicted, float32 [N, D]:
/// regression. They are in memory.
MakeDataSet configure_packed_tensors(Fields& options);

}  // namespace sluice
