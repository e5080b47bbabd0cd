#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "experiments/data/files/raw_file.h"

namespace sluice {

/// A file of tokens as numbers and nothing else, little-endian, as nanoGPT's
/// prepare.py writes. Any number of threads may read.
class TokenFile {
 public:
  /// `token_bytes`: 2 or 4. Throws UserError when the file is none or doesn't
  /// consist of such numbers.
  TokenFile(const std::string& path, std::size_t token_bytes);

  const std::string& path() const { return file_.path(); }
  /// Tokens.
  std::int64_t size() const { return size_; }
  /// Fills `tokens` with those from `begin` on. Throws UserError, naming the
  /// file and the place, for one that is not below `vocabulary`.
  void read(std::int64_t begin, std::int64_t vocabulary,
            std::span<std::int64_t> tokens) const;
  /// The largest token; goes through the whole file.
  std::int64_t largest() const;

 private:
  RawFile file_;
  std::size_t token_bytes_;
  std::int64_t size_;
};

}  // namespace sluice
