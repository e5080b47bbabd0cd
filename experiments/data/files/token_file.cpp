#include "experiments/data/files/token_file.h"

#include <algorithm>
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
void widen(std::span<const std::byte> bytes, std::span<std::int64_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Token token = 0;
    std::memcpy(&token, bytes.data() + i * sizeof token, sizeof token);
    tokens[i] = token;
  }
}

}  // namespace

TokenFile::TokenFile(const std::string& path, std::size_t token_bytes)
    : file_(path),
      token_bytes_(token_bytes),
      size_(static_cast<std::int64_t>(file_.size() / token_bytes)) {
  SLUICE_CHECK(token_bytes == 2 || token_bytes == 4, "{}", token_bytes);
  if (file_.size() % token_bytes != 0)
    throw UserError(
        "{}: has {} bytes, which are no whole number of tokens of {} bytes; "
        "see data.dtype",
        path, file_.size(), token_bytes);
}

void TokenFile::read(std::int64_t begin, std::int64_t vocabulary,
                     std::span<std::int64_t> tokens) const {
  std::vector<std::byte> bytes(tokens.size() * token_bytes_);
  file_.read(static_cast<std::uint64_t>(begin) * token_bytes_, bytes);
  if (token_bytes_ == 2)
    widen<std::uint16_t>(bytes, tokens);
  else
    widen<std::uint32_t>(bytes, tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] >= vocabulary)
      throw UserError(
          "{}: token {} is {}, but a vocabulary of {} ends before it; see "
          "data.vocabulary and data.dtype",
          path(), begin + static_cast<std::int64_t>(i), tokens[i], vocabulary);
}

std::int64_t TokenFile::largest() const {
  constexpr std::int64_t kPiece = std::int64_t{1} << 20;
  std::vector<std::int64_t> tokens;
  std::int64_t largest = 0;
  for (std::int64_t begin = 0; begin < size_; begin += kPiece) {
    tokens.resize(static_cast<std::size_t>(std::min(kPiece, size_ - begin)));
    read(begin, std::numeric_limits<std::int64_t>::max(), tokens);
    largest =
        std::max(largest, *std::max_element(tokens.begin(), tokens.end()));
  }
  return largest;
}

}  // namespace sluice
