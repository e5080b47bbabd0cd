#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// Checks the bytes of a model file of sentencepiece before that library reads
/// them, which trusts two of its parts: the double arrays of its rules of
/// normalization (each step and each result of theirs must stay within the
/// file), and user-defined pieces that begin alike. `source` names the file.
/// Throws UserError, one line. What the library checks itself is left to it.
///
/// Format: sentencepiece_model.proto of sentencepiece 0.1.97, on the wire of
/// Protocol Buffers; double arrays of darts-clone 0.32.
void check_tokenizer_file(std::string_view bytes, const std::string& source);

}  // namespace sluice
