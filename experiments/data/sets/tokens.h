#pragma once

#include <cstdint>
#include <memory>

#include "experiments/data/files/token_shards.h"
#include "experiments/data/samples/data_set.h"
#include "experiments/data/sets/windows.h"

namespace sluice {

/// Files of tokens as numbers, as nanoGPT's prepare.py makes them (train.bin,
/// val.bin), or with a header that says what they are (files/token_form.h),
/// each split in one file or several, one behind the other. Tokens are read
/// window by window and may be larger than the memory. Inputs are int64 [N, T];
/// labels, int64 [N, T], are the tokens that follow each; windows lie and move
/// as those of a text (experiments/data/sets/text.h).
MakeDataSet configure_tokens(Fields& options);

/// The samples of token files at these windows. Throws UserError where there
/// are none.
Split split_of_tokens(const std::shared_ptr<const TokenShards>& shards,
                      std::int64_t vocabulary, const Windows& windows);

}  // namespace sluice
