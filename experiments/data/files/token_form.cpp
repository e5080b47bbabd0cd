#include "experiments/data/files/token_form.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "experiments/data/files/npy_file.h"
#include "experiments/data/files/token_width.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

using namespace std::string_view_literals;

/// Files that somebody may take for tokens, by how they begin.
struct OtherKind {
  std::string_view magic;
  std::string_view what;
};

constexpr std::array kOtherKinds = {
    OtherKind{"PK\x03\x04"sv,
              "a zip (.npz or .pt); save the tokens with numpy.save()"},
    OtherKind{"\x1f\x8b\x08"sv, "gzipped; gunzip it"},
    OtherKind{"\x28\xb5\x2f\xfd"sv, "compressed (zstd); unpack it"},
    OtherKind{"\xfd\x37zXZ\0"sv, "compressed (xz); unpack it"},
    OtherKind{"BZh91AY"sv, "compressed (bzip2); unpack it"},
    OtherKind{"PAR1"sv, "a Parquet table; save the tokens with numpy.save()"},
    OtherKind{"ARROW1"sv, "an Arrow table; save the tokens with numpy.save()"},
    OtherKind{"\x89HDF"sv, "an HDF5 file; save the tokens with numpy.save()"},
    OtherKind{"MMIDIDX"sv, "an index of Megatron's; name the .bin beside it"},
    OtherKind{"\x80\x04\x95"sv, "a pickle; save the tokens with numpy.save()"},
    OtherKind{"\x7f"
              "ELF"sv,
              "a program"},
};

struct NpyTokens {
  std::string_view code;
  TokenType type;
};

constexpr std::array kNpyTokens = {
    NpyTokens{"|u1", {1, false}}, NpyTokens{"|i1", {1, true}},
    NpyTokens{"<u2", {2, false}}, NpyTokens{"<i2", {2, true}},
    NpyTokens{"<u4", {4, false}}, NpyTokens{"<i4", {4, true}},
    NpyTokens{"<u8", {8, false}}, NpyTokens{"<i8", {8, true}},
};

/// llm.c's files begin with 256 numbers of 32 bits: a number that says what
/// they are, a version, and how many tokens follow (dev/data/data_common.py).
struct LlmcKind {
  std::uint32_t magic;
  std::uint32_t version;
  TokenType type;
};

constexpr std::array kLlmcKinds = {
    LlmcKind{20240520, 1, {2, false}},
    LlmcKind{20240801, 7, {4, false}},
};
constexpr std::uint64_t kLlmcHeader = 1024;
/// Magic numbers of llm.c's other files: evaluations, weights and a state for
/// tests.
constexpr std::array<std::uint32_t, 4> kOtherLlmc = {20240522, 20240326,
                                                     20240327, 20240527};

std::string_view header_text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint32_t number_at(std::span<const std::uint8_t> bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i-- > 0;) number = number << 8 | bytes[at + i];
  return number;
}

TokenForm form_of_npy(const RawFile& file, std::span<const std::uint8_t> head) {
  const NpyForm npy = read_npy_form(head, file.path());
  const auto* type = std::find_if(
      kNpyTokens.begin(), kNpyTokens.end(),
      [&](const NpyTokens& each) { return each.code == npy.code; });
  if (type == kNpyTokens.end())
    throw UserError(
        "{}: holds '{}', which are no tokens; save whole numbers (uint16)",
        file.path(), npy.code);
  if (npy.sizes.size() != 1)
    throw UserError(
        "{}: has {} dimensions; tokens are one row: save reshape(-1) of it",
        file.path(), npy.sizes.size());
  const auto count = static_cast<std::uint64_t>(npy.sizes[0]);
  const std::uint64_t there =
      file.size() < npy.begin ? 0 : file.size() - npy.begin;
  if (there % type->type.bytes != 0 || there / type->type.bytes != count)
    throw UserError("{}: has {} bytes behind its header, which says {} of {}",
                    file.path(), there, count, type->type.name());
  return {.type = type->type,
          .begin = npy.begin,
          .count = npy.sizes[0],
          .header = "a .npy header"};
}

/// Form of a file of llm.c; empty where it is none.
std::optional<TokenForm> form_of_llmc(const RawFile& file,
                                      std::span<const std::uint8_t> head) {
  if (head.size() < 12) return std::nullopt;
  const std::uint32_t magic = number_at(head, 0);
  const std::uint32_t version = number_at(head, 4);
  if (version <= 16 && std::find(kOtherLlmc.begin(), kOtherLlmc.end(), magic) !=
                           kOtherLlmc.end())
    throw UserError(
        "{}: is a file of llm.c ({}), but no token file of it: those begin "
        "with {} or {}",
        file.path(), magic, kLlmcKinds[0].magic, kLlmcKinds[1].magic);
  for (const LlmcKind& kind : kLlmcKinds) {
    if (kind.magic != magic) continue;
    if (version != kind.version)
      throw UserError(
          "{}: is a token file of llm.c of version {}; version {} is known",
          file.path(), version, kind.version);
    const std::uint64_t count = number_at(head, 8);
    if (file.size() != kLlmcHeader + count * kind.type.bytes)
      throw UserError(
          "{}: its header (llm.c's) says {} tokens of {}, which need {} bytes, "
          "but it has {}: is it cut off?",
          file.path(), count, kind.type.name(),
          kLlmcHeader + count * kind.type.bytes, file.size());
    return TokenForm{.type = kind.type,
                     .begin = kLlmcHeader,
                     .count = static_cast<std::int64_t>(count),
                     .header = "llm.c's header"};
  }
  return std::nullopt;
}

/// Whether only characters and line ends are there; bytes from 128 on are those
/// of UTF-8.
bool is_text(std::span<const std::uint8_t> head) {
  constexpr std::size_t kLeast = 64;
  if (head.size() < kLeast) return false;
  const auto written = [](std::uint8_t byte) {
    return (byte >= ' ' && byte < 0x7f) || byte == '\n' || byte == '\r' ||
           byte == '\t';
  };
  const auto letters = std::count_if(head.begin(), head.end(), written);
  const bool rest_is_utf8 =
      std::all_of(head.begin(), head.end(), [&](std::uint8_t byte) {
        return written(byte) || (byte >= 0x80 && byte < 0xf5);
      });
  // Nine in ten, so that no file of numbers is taken for one.
  return rest_is_utf8 && 10 * letters >= 9 * std::ssize(head);
}

void refuse_other_kinds(const RawFile& file, TokenType type,
                        std::span<const std::uint8_t> head) {
  for (const OtherKind& kind : kOtherKinds)
    if (header_text(head).starts_with(kind.magic))
      throw UserError("{}: is no token file: it is {}", file.path(), kind.what);
  if (type.bytes > 1 && is_text(head))
    throw UserError(
        "{}: is no token file: it is a text; set data.name = \"text\" and "
        "data.file, or data.dtype = \"uint8\" for its bytes as tokens",
        file.path());
}

}  // namespace

std::string TokenType::name() const {
  return fmt::format("{}{}", is_signed ? "int" : "uint", 8 * bytes);
}

TokenForm token_form_of(const RawFile& file, TokenType type) {
  std::vector<std::uint8_t> head(static_cast<std::size_t>(
      std::min<std::uint64_t>(file.size(), kMostNpyHead)));
  file.read(0, std::as_writable_bytes(std::span(head)));
  if (header_text(head).starts_with("\x93NUMPY"))
    return form_of_npy(file, head);
  if (auto form = form_of_llmc(file, head)) return *form;
  refuse_other_kinds(file, type, head);
  if (file.size() % type.bytes != 0)
    throw UserError(
        "{}: has {} bytes, which are no whole number of tokens of {} bytes; "
        "see data.dtype",
        file.path(), file.size(), type.bytes);
  check_token_width(file, type);
  return {.type = type,
          .count = static_cast<std::int64_t>(file.size() / type.bytes)};
}

}  // namespace sluice
