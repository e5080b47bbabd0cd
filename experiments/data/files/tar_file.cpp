#include "experiments/data/files/tar_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::uint64_t kBlock = 512;
/// Bytes of a long name, or of the records about a member.
constexpr std::uint64_t kMostExtension = std::uint64_t{1} << 20;

using Header = std::array<char, kBlock>;

/// Fields of a header: POSIX.1-2017, pax, "ustar Interchange Format".
struct TarField {
  std::size_t begin;
  std::size_t size;
};
constexpr TarField kMemberName = {0, 100};
constexpr TarField kMemberSize = {124, 12};
constexpr TarField kChecksum = {148, 8};
constexpr std::size_t kType = 156;
constexpr TarField kMagic = {257, 5};
constexpr TarField kNamePrefix = {345, 155};

std::string_view field_of(const Header& header, const TarField& field) {
  const std::string_view text(header.data() + field.begin, field.size);
  return text.substr(0, text.find('\0'));
}

std::optional<std::uint64_t> number_in(std::string_view text, int base) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return 0;
  text = text.substr(first, text.find_last_not_of(' ') + 1 - first);
  std::uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

/// In octal digits; GNU's for what has too many of them: big-endian bytes,
/// after one with the highest bit.
std::optional<std::uint64_t> size_in(const Header& header) {
  const std::span<const char> bytes(header.data() + kMemberSize.begin,
                                    kMemberSize.size);
  if (static_cast<unsigned char>(bytes[0]) != 0x80)
    return number_in(field_of(header, kMemberSize), 8);
  std::uint64_t size = 0;
  for (const char byte : bytes.subspan(1)) {
    if (size >> 56U != 0) return std::nullopt;
    size = size << 8U | static_cast<unsigned char>(byte);
  }
  return size;
}

bool is_zero(std::span<const char> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](char byte) { return byte == 0; });
}

/// The sum of its bytes, with blanks for the sum itself.
bool has_right_sum(const Header& header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const bool is_of_sum = i - kChecksum.begin < kChecksum.size;
    sum += is_of_sum ? ' ' : static_cast<unsigned char>(header.at(i));
  }
  return number_in(field_of(header, kChecksum), 8) == sum;
}

std::string name_in(const Header& header) {
  std::string name(field_of(header, kMemberName));
  const std::string_view prefix = field_of(header, kNamePrefix);
  // GNU has other things there, and a blank after "ustar".
  const bool is_posix = header.at(kMagic.begin + kMagic.size) == '\0';
  if (!is_posix || prefix.empty()) return name;
  return std::string(prefix) + "/" + name;
}

/// What the members before a file say of it.
struct TarExtension {
  std::optional<std::string> name = {};
  std::optional<std::uint64_t> size = {};
};

/// pax: "30 path=folder/name\n", the length of the whole first. False: damaged.
bool take_records(std::string_view records, TarExtension& extension) {
  while (!records.empty()) {
    const std::size_t blank = records.find(' ');
    const auto length = number_in(records.substr(0, blank), 10);
    if (blank == std::string_view::npos || !length || *length < blank + 2 ||
        *length > records.size() || records[*length - 1] != '\n')
      return false;
    const std::string_view record =
        records.substr(blank + 1, *length - blank - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") extension.name = std::string(value);
    if (key == "size") extension.size = number_in(value, 10);
    if (key == "size" && !extension.size) return false;
    records.remove_prefix(*length);
  }
  return true;
}

class TarReader {
 public:
  explicit TarReader(const RawFile& tar) : tar_(tar) {}

  std::vector<TarMember> read() {
    refuse_gzipped();
    std::vector<TarMember> members;
    TarExtension extension;
    while (true) {
      const Header header = next_header();
      if (is_zero(header)) break;
      check(header);
      const char type = header.at(kType);
      const auto size = size_in(header);
      if (!size) fail("a size that is no number");
      if (type == 'L' || type == 'x') {
        take_extension(type, *size, extension);
        continue;
      }
      const bool is_file = type == '0' || type == '\0' || type == '7';
      TarMember member = {
          .name = extension.name ? *std::move(extension.name) : name_in(header),
          .begin = at_,
          .bytes = extension.size.value_or(*size)};
      extension = {};
      if (std::string_view("12S").find(type) != std::string_view::npos)
        throw UserError(
            "{}:{}: is a link or has holes, and isn't read; pack it anew with "
            "`tar --hard-dereference -h`",
            tar_.path(), member.name);
      skip(member.bytes);
      if (is_file) members.push_back(std::move(member));
    }
    check_rest();
    return members;
  }

 private:
  void refuse_gzipped() const {
    constexpr std::array kMark = {std::byte{0x1f}, std::byte{0x8b}};
    std::array<std::byte, 2> mark = {};
    if (tar_.size() < mark.size()) return;
    tar_.read(0, mark);
    if (mark == kMark)
      throw UserError(
          "{}: is read at any place, so it can't be gzipped; gunzip it",
          tar_.path());
  }

  Header next_header() {
    header_at_ = at_;
    Header header = {};
    if (tar_.size() - at_ < kBlock) fail("no header, and no end of zeros,");
    tar_.read(at_, std::as_writable_bytes(std::span(header)));
    at_ += kBlock;
    return header;
  }

  /// A file behind the end would be lost.
  void check_rest() {
    std::vector<char> piece(std::size_t{1} << 16);
    while (at_ < tar_.size()) {
      piece.resize(static_cast<std::size_t>(
          std::min<std::uint64_t>(piece.size(), tar_.size() - at_)));
      tar_.read(at_, std::as_writable_bytes(std::span(piece)));
      if (!is_zero(piece))
        throw UserError(
            "{}: goes on behind its end at byte {}: it may be several tar "
            "files in one; give each by itself",
            tar_.path(), header_at_);
      at_ += piece.size();
    }
  }

  void check(const Header& header) const {
    if (has_right_sum(header)) return;
    if (header_at_ > 0) fail("no header of a file");
    throw UserError("{}: is no tar file", tar_.path());
  }

  void take_extension(char type, std::uint64_t size, TarExtension& extension) {
    if (size > kMostExtension || size > tar_.size() - at_)
      fail("a name that is too long");
    std::string text(size, '\0');
    tar_.read(at_, std::as_writable_bytes(std::span(text)));
    skip(size);
    if (type == 'L')
      extension.name = text.substr(0, text.find('\0'));
    else if (!take_records(text, extension))
      fail("a damaged record");
  }

  void skip(std::uint64_t bytes) {
    const std::uint64_t left = tar_.size() - at_;
    const std::uint64_t padding = (kBlock - bytes % kBlock) % kBlock;
    if (bytes > left || padding > left - bytes)
      fail("a file that goes on behind its end");
    at_ += bytes + padding;
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw UserError(
        "{}: has {} at byte {}: it is damaged or cut off; get it again",
        tar_.path(), what, header_at_);
  }

  const RawFile& tar_;
  std::uint64_t at_ = 0;
  std::uint64_t header_at_ = 0;
};

}  // namespace

std::vector<TarMember> members_of(const RawFile& tar) {
  return TarReader(tar).read();
}

}  // namespace sluice
