#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "experiments/data/files/raw_file.h"
#include "experiments/data/files/token_form.h"

namespace sluice {

/// Numbers of tokens that were looked at, and what was seen.
struct TokenTally {
  std::int64_t tokens = 0;
  std::int64_t zeros = 0;
  std::int64_t largest = 0;
};

/// A file of tokens as numbers, little-endian, as nanoGPT's prepare.py writes,
/// or with a header (token_form.h). Any number of threads may read.
class TokenFile {
 public:
  /// A file of our own, of numbers and nothing else. `token_bytes`: 2 or 4.
  /// Throws UserError when the file is none or doesn't consist of such numbers.
  TokenFile(const std::string& path, std::size_t token_bytes);
  /// Somebody else's file: its header says what its tokens are; without one
  /// they are of `type`, which is checked as token_form_of() does.
  TokenFile(const std::string& path, TokenType type);

  const std::string& path() const { return file_.path(); }
  /// Tokens.
  std::int64_t size() const { return form_.count; }
  const TokenForm& form() const { return form_; }
  /// Fills `tokens` with those from `begin` on. Throws UserError, naming the
  /// file and the place, for one that is not in [0, vocabulary).
  void read(std::int64_t begin, std::int64_t vocabulary,
            std::span<std::int64_t> tokens) const;
  /// The largest token; goes through the whole file.
  std::int64_t largest() const;
  /// Looks at 64 pieces of 8192 tokens at most, spread evenly.
  TokenTally look() const;

 private:
  RawFile file_;
  TokenForm form_;
};

}  // namespace sluice
