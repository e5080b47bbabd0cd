#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/data/files/token_file.h"

namespace sluice {

/// Token files one behind the other, as one row of tokens: a window may begin
/// in one and end in the next. Any number of threads may read.
class TokenShards {
 public:
  /// One file or more.
  explicit TokenShards(std::vector<std::unique_ptr<const TokenFile>> files);
  /// Somebody else's files of tokens of `type`, as TokenFile's. Throws
  /// UserError for one without a token.
  TokenShards(std::span<const std::string> paths, TokenType type);

  std::span<const std::unique_ptr<const TokenFile>> files() const {
    return files_;
  }
  /// "PATH", of several files "PATH and 3 more files".
  std::string name() const;
  /// Tokens of all files.
  std::int64_t size() const { return ends_.back(); }
  /// As TokenFile::read().
  void read(std::int64_t begin, std::int64_t vocabulary,
            std::span<std::int64_t> tokens) const;

 private:
  std::vector<std::unique_ptr<const TokenFile>> files_;
  std::vector<std::int64_t> ends_;  // of each, in the row
};

}  // namespace sluice
