#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "experiments/data/files/raw_file.h"

namespace sluice {

/// Type of a token in a file, little-endian.
struct TokenType {
  std::size_t bytes = 2;  ///< 1, 2, 4 or 8
  bool is_signed = false;

  bool operator==(const TokenType&) const = default;
  std::string name() const;  ///< "uint16"
};

/// Where the tokens of a file lie, and what they are.
struct TokenForm {
  TokenType type = {};
  std::uint64_t begin = 0;  ///< the first byte of the first token
  std::int64_t count = 0;
  std::string header = {};  ///< "a .npy header"; empty: tokens and nothing else
};

/// The form of a token file: that which its header states (.npy of a whole
/// number type, llm.c's token files), or tokens of `type` from the first byte
/// on. Throws UserError in one line that begins with the path: for a header
/// that doesn't fit the file; for a file of another kind (zip, gzip, text,
/// ...); and, where there is no header, for tokens that are of another width by
/// what lies in their bytes.
TokenForm token_form_of(const RawFile& file, TokenType type);

}  // namespace sluice
