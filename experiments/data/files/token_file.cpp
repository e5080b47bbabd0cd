#include "experiments/data/files/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "lib/base/error.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian, and so is this code");

template <class Token>
void widen_all(std::span<const std::byte> bytes,
               std::span<std::int64_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Token token = 0;
    std::memcpy(&token, bytes.data() + i * sizeof token, sizeof token);
    tokens[i] = static_cast<std::int64_t>(token);
  }
}

using Widen = void (*)(std::span<const std::byte>, std::span<std::int64_t>);

struct Reader {
  TokenType type;
  Widen widen;
};

// A uint64 above the largest int64 becomes negative, and is refused as such.
constexpr std::array kReaders = {
    Reader{{1, false}, widen_all<std::uint8_t>},
    Reader{{1, true}, widen_all<std::int8_t>},
    Reader{{2, false}, widen_all<std::uint16_t>},
    Reader{{2, true}, widen_all<std::int16_t>},
    Reader{{4, false}, widen_all<std::uint32_t>},
    Reader{{4, true}, widen_all<std::int32_t>},
    Reader{{8, false}, widen_all<std::uint64_t>},
    Reader{{8, true}, widen_all<std::int64_t>},
};

void widen(TokenType type, std::span<const std::byte> bytes,
           std::span<std::int64_t> tokens) {
  for (const Reader& reader : kReaders)
    if (reader.type == type) return reader.widen(bytes, tokens);
  SLUICE_CHECK(false, "no reader of {}", type.name());
}

}  // namespace

TokenFile::TokenFile(const std::string& path, std::size_t token_bytes)
    : file_(path),
      form_{.type = {.bytes = token_bytes},
            .count = static_cast<std::int64_t>(file_.size() / token_bytes)} {
  SLUICE_CHECK(token_bytes == 2 || token_bytes == 4, "{}", token_bytes);
  if (file_.size() % token_bytes != 0)
    throw UserError(
        "{}: has {} bytes, which are no whole number of tokens of {} bytes; "
        "see data.dtype",
        path, file_.size(), token_bytes);
}

TokenFile::TokenFile(const std::string& path, TokenType type)
    : file_(path), form_(token_form_of(file_, type)) {}

void TokenFile::read(std::int64_t begin, std::int64_t vocabulary,
                     std::span<std::int64_t> tokens) const {
  std::vector<std::byte> bytes(tokens.size() * form_.type.bytes);
  file_.read(form_.begin + static_cast<std::uint64_t>(begin) * form_.type.bytes,
             bytes);
  widen(form_.type, bytes, tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0)
      throw UserError(
          "{}: token {} is {}; tokens are numbers from 0: see data.dtype",
          path(), begin + static_cast<std::int64_t>(i), tokens[i]);
    if (tokens[i] >= vocabulary)
      throw UserError(
          "{}: token {} is {}, but a vocabulary of {} ends before it; see "
          "data.vocabulary and data.dtype",
          path(), begin + static_cast<std::int64_t>(i), tokens[i], vocabulary);
  }
}

std::int64_t TokenFile::largest() const {
  constexpr std::int64_t kPiece = std::int64_t{1} << 20;
  std::vector<std::int64_t> tokens;
  std::int64_t largest = 0;
  for (std::int64_t begin = 0; begin < size(); begin += kPiece) {
    tokens.resize(static_cast<std::size_t>(std::min(kPiece, size() - begin)));
    read(begin, std::numeric_limits<std::int64_t>::max(), tokens);
    largest =
        std::max(largest, *std::max_element(tokens.begin(), tokens.end()));
  }
  return largest;
}

TokenTally TokenFile::look() const {
  constexpr std::int64_t kPieces = 64;
  constexpr std::int64_t kPiece = 8192;
  TokenTally seen;
  std::vector<std::int64_t> tokens;
  const auto look_at = [&](std::int64_t begin, std::int64_t count) {
    tokens.resize(static_cast<std::size_t>(count));
    read(begin, std::numeric_limits<std::int64_t>::max(), tokens);
    seen.tokens += count;
    seen.zeros += std::count(tokens.begin(), tokens.end(), 0);
    for (const std::int64_t token : tokens)
      seen.largest = std::max(seen.largest, token);
  };
  if (size() <= kPieces * kPiece) {
    look_at(0, size());
    return seen;
  }
  for (std::int64_t i = 0; i < kPieces; ++i)
    look_at((size() - kPiece) / (kPieces - 1) * i, kPiece);
  return seen;
}

}  // namespace sluice
