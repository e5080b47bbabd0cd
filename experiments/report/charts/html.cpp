#include "experiments/report/charts/html.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace sluice::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Number of bytes of a character that begins with this one; 0: none does.
std::size_t length_from(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/// The bytes of the character that `text` begins with; 0: it is none.
std::size_t character_at(std::string_view text) {
  const std::size_t length =
      length_from(static_cast<unsigned char>(text.front()));
  if (length == 0 || length > text.size()) return 0;
  std::uint32_t code = static_cast<unsigned char>(text.front());
  if (length > 1) code &= 0x7FU >> length;
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80U) return 0;
    code = code << 6U | (next & 0x3FU);
  }
  const bool is_long_form =
      (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  const bool is_control = code < 0x20 && code != '\n' && code != '\t';
  const bool is_none = code == 0xFFFE || code == 0xFFFF || code > 0x10FFFF;
  return is_long_form || is_surrogate || is_control || is_none ? 0 : length;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_at(text);
    const std::string_view character =
        length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
    if (character == "<")
      out += "&lt;";
    else if (character == ">")
      out += "&gt;";
    else if (character == "&")
      out += "&amp;";
    else if (character == "\"")
      out += "&quot;";
    else if (character == "'")
      out += "&#39;";
    else
      out += character;
  }
  return out;
}

std::string breakable(std::string_view text) {
  std::string out;
  for (const char c : escaped(text)) {
    out += c;
    if (c == '_' || c == ',') out += "<wbr/>";
  }
  return out;
}

std::string element(std::string_view name, std::string_view attributes,
                    std::string_view inside) {
  return fmt::format("<{}{}{}>{}</{}>", name, attributes.empty() ? "" : " ",
                     attributes, inside, name);
}

}  // namespace sluice::report
