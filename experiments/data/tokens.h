#pragma once

#include "experiments/data/data_set.h"

namespace sluice {

/// Files of tokens as numbers, uint16 or uint32, as nanoGPT's prepare.py makes
/// them (train.bin, val.bin). They are read window by window and may be larger
/// than the memory. Inputs are int64 [N, T]; labels, int64 [N, T], are the
/// tokens that follow each; windows lie and move as those of a text
/// (experiments/data/text.h).
MakeDataSet configure_tokens(Fields& options);

}  // namespace sluice
