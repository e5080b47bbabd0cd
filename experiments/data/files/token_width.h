#pragma once

#include "experiments/data/files/raw_file.h"
#include "experiments/data/files/token_form.h"

namespace sluice {

/// Throws UserError, in one line with the evidence and the remedy, for tokens
/// without a header that are of another width, or big-endian, by what lies in
/// their bytes: uint32 read as uint16 has a zero for every second token, bytes
/// read as uint16 have halves that are alike, and so on. Looks at 64 pieces of
/// 64 KiB at most, spread evenly. A file too short to tell passes.
void check_token_width(const RawFile& file, TokenType type);

}  // namespace sluice
