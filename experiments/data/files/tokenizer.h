#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Turns a text into tokens and back. Any number of threads may use it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Number of tokens: each is from 0 to vocabulary() - 1.
  virtual std::int64_t vocabulary() const = 0;
  /// Throws UserError for a text that it has no tokens for.
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  /// The bytes that the token, which is below vocabulary(), stands for in the
  /// middle of a text.
  virtual std::string text_of(std::int64_t token) const = 0;
};

}  // namespace sluice
