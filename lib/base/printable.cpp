#include "lib/base/printable.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace sluice {
namespace {

/// A character of UTF-8; 0 bytes long where there is none.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

std::uint32_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// Number of bytes of a character that begins with `first`; 0: none does.
std::size_t length_from(std::uint32_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

/// The first character of a text that isn't empty.
Character first_of(std::string_view text) {
  const std::uint32_t first = byte_at(text, 0);
  const std::size_t bytes = length_from(first);
  if (bytes == 0 || bytes > text.size()) return {};
  if (bytes == 1) return {first, 1};
  std::uint32_t code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const std::uint32_t next = byte_at(text, i);
    if ((next & 0xc0U) != 0x80) return {};
    code = code << 6 | (next & 0x3fU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || code > 0x10ffff || is_surrogate) return {};
  return {code, bytes};
}

bool is_plain(std::uint32_t code) {
  const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool is_line_end = code == 0x2028 || code == 0x2029;
  const bool turns = code == 0x200e || code == 0x200f ||
                     (code >= 0x202a && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069);
  return !is_control && !is_line_end && !turns;
}

std::string escaped(std::uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  return code < 0x80 ? fmt::format("\\x{:02x}", code)
                     : fmt::format("\\u{:04x}", code);
}

/// Digits that `text` begins with, where they are more than a reader takes in;
/// else none.
std::string_view many_digits(std::string_view text) {
  constexpr std::size_t kMost = 60;
  const std::size_t end = text.find_first_not_of("0123456789");
  const std::string_view digits = text.substr(0, end);
  return digits.size() > kMost ? digits : std::string_view();
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t kShownDigits = 20;
  std::string result;
  while (!text.empty()) {
    if (const std::string_view digits = many_digits(text); !digits.empty()) {
      result += fmt::format("{}... ({} digits)", digits.substr(0, kShownDigits),
                            digits.size());
      text.remove_prefix(digits.size());
      continue;
    }
    const Character next = first_of(text);
    if (next.bytes == 0)
      result += fmt::format("\\x{:02x}", byte_at(text, 0));
    else if (is_plain(next.code))
      result += text.substr(0, next.bytes);
    else
      result += escaped(next.code);
    text.remove_prefix(next.bytes == 0 ? 1 : next.bytes);
  }
  return result;
}

}  // namespace sluice
