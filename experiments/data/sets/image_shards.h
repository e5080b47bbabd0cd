#pragma once

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// Images in tar files, as WebDataset has them: what a sample consists of lies
/// together and has one name up to the first dot, KEY.jpg (or .jpeg, .png) and
/// KEY.cls, its class as a number. Read at any place, in the shuffled order of
/// any other set: the tar files may be larger than the memory.
MakeDataSet configure_image_shards(Fields& options);

}  // namespace sluice
