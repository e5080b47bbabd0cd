#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace sluice {

/// Lines of eight words each, as of a manual page and without sense: always the
/// same, so that tokenizers can be trained from them.
inline std::string manual_text(int lines) {
  constexpr std::array kWords = {
      "the",        "of",     "to",      "is",     "a",      "file",
      "name",       "option", "returns", "error",  "signal", "process",
      "directory",  "socket", "address", "number", "value",  "when",
      "not",        "if",     "it",      "and",    "for",    "with",
      "from",       "that",   "read",    "write",  "open",   "close",
      "mode",       "flag",   "bits",    "user",   "group",  "time",
      "caf\xc3\xa9"};
  std::string text;
  std::uint32_t state = 1;
  for (int line = 0; line < lines; ++line) {
    for (int word = 0; word < 8; ++word) {
      state = (state * 1103515245U + 12345U) & 0x7fffffffU;
      text += kWords.at((state >> 16) % kWords.size());
      text += word == 7 ? ".\n" : " ";
    }
  }
  return text;
}

}  // namespace sluice
