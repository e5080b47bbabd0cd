#include "lib/checkpoints/safetensors_header.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "lib/base/crc32c.h"
#include "lib/base/error.h"
#include "lib/base/whole_number.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr TypeName kTypes[] = {
    {DType::float32, "F32"},   {DType::float64, "F64"}, {DType::float16, "F16"},
    {DType::bfloat16, "BF16"}, {DType::int64, "I64"},   {DType::int32, "I32"},
    {DType::int16, "I16"},     {DType::int8, "I8"},     {DType::uint8, "U8"},
    {DType::boolean, "BOOL"},
};

/// More than any model of ours has by far, and than a file in parts of any
/// other.
constexpr std::size_t kMostTensors = 100'000;
/// Most dimensions that a tensor of LibTorch can be computed with.
constexpr std::size_t kMostSizes = 64;

/// The longest header that is believed, as in the reference implementation.
constexpr std::uint64_t kMaxHeader = 100'000'000;

/// A size of 0 counts as 1 for the limit, because LibTorch multiplies from the
/// left before it meets the 0.
std::uint64_t bytes_of(const SafetensorsEntry& entry, const std::string& path) {
  auto bytes = static_cast<std::int64_t>(size_of(entry.dtype));
  bool is_empty = false;
  for (const std::int64_t size : entry.sizes) {
    is_empty = is_empty || size == 0;
    if (size < 0 ||
        __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes))
      throw UserError("{}: tensor '{}' has impossible sizes", path, entry.name);
  }
  return is_empty ? 0 : static_cast<std::uint64_t>(bytes);
}

SafetensorsEntry entry_of(const std::string& name, const Json& item,
                          const std::string& path, std::uint64_t data_bytes) {
  SafetensorsEntry entry{
      name, safetensors_dtype(item.at("dtype").get<std::string>(), path),
      whole_numbers<std::int64_t>(item.at("shape")),
      whole_number<std::uint64_t>(item.at("data_offsets").at(0)),
      whole_number<std::uint64_t>(item.at("data_offsets").at(1))};
  if (entry.sizes.size() > kMostSizes)
    throw UserError("{}: tensor '{}' has {} sizes, at most {} are allowed",
                    path, name, entry.sizes.size(), kMostSizes);
  const std::uint64_t bytes = bytes_of(entry, path);
  if (entry.begin > entry.end || entry.end > data_bytes ||
      entry.end - entry.begin != bytes)
    throw UserError(
        "{}: tensor '{}' needs {} bytes, its offsets are {} to {} of {}", path,
        name, bytes, entry.begin, entry.end, data_bytes);
  return entry;
}

/// Takes a header's tensors one by one, so that nothing of it is kept that
/// isn't one.
class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::uint64_t data_bytes)
      : path_(path), data_bytes_(data_bytes) {}

  /// Called by nlohmann's parser; returns false when what has been read can be
  /// forgotten.
  bool take(int depth, Json::parse_event_t event, const Json& parsed) {
    constexpr int kDeepest = 3;  // {name: {shape: [...]}}
    if (depth > kDeepest)
      throw UserError("{}: the header is nested more than {} deep", path_,
                      kDeepest);
    if (depth != 1) return true;
    if (event == Json::parse_event_t::key) {
      name_ = parsed.get<std::string>();
      return true;
    }
    if (event == Json::parse_event_t::object_start ||
        event == Json::parse_event_t::array_start)
      return true;
    if (name_ == "__metadata__")
      metadata_ = parsed;
    else
      add(parsed);
    return false;
  }

  /// Entries in the order of the header.
  std::vector<SafetensorsEntry> entries() { return std::move(entries_); }
  const Json& metadata() const { return metadata_; }

 private:
  void add(const Json& item) {
    if (!names_.insert(name_).second)
      throw UserError("{}: two tensors are called '{}'", path_, name_);
    if (names_.size() > kMostTensors)
      throw UserError(
          "{}: has more than {} tensors, so it is no model of ours; leave out "
          "those that aren't needed",
          path_, kMostTensors);
    entries_.push_back(entry_of(name_, item, path_, data_bytes_));
  }

  const std::string& path_;
  std::uint64_t data_bytes_;
  std::string name_;
  Json metadata_ = Json::object();
  std::unordered_set<std::string> names_;
  std::vector<SafetensorsEntry> entries_;
};

void check_overlaps(const std::vector<SafetensorsEntry>& entries,
                    const std::string& path) {
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i].begin < entries[i - 1].end)
      throw UserError("{}: tensors '{}' and '{}' share bytes", path,
                      entries[i - 1].name, entries[i].name);
}

/// Keys of the metadata; the second is eight hexadecimal digits for each
/// tensor, in the order of the header.
constexpr const char* kOfHeader = "sluice.header_crc32c";
constexpr const char* kOfTensors = "sluice.crc32c";
constexpr std::size_t kDigits = 8;
constexpr const char* kRemedy =
    "take an older checkpoint (--resume continues from the newest that is "
    "there) or another copy of the file; a program that wrote it anew must "
    "leave "
    "out sluice.* in its metadata";

std::string digits_of(std::uint32_t checksum) {
  return fmt::format("{:08x}", checksum);
}

/// Place of the digits of the header's own checksum in its text; npos: nowhere
/// whole.
std::size_t place_of_seal(std::string_view header) {
  const std::string key = fmt::format("\"{}\":\"", kOfHeader);
  const std::size_t found = header.find(key);
  if (found == header.npos || found + key.size() + kDigits > header.size())
    return header.npos;
  return found + key.size();
}

/// Seal of a header that has zeros in the seal's place. The length counts, so
/// that spaces do.
std::uint32_t seal_of(std::string header, std::size_t place) {
  header.replace(place, kDigits, kDigits, '0');
  const std::uint64_t length = header.size();
  const std::span before(&length, 1);
  return crc32c(std::as_bytes(std::span(header)),
                crc32c(std::as_bytes(before)));
}

void check_seal(const std::string& text, const Json& metadata,
                const std::string& path) {
  if (!metadata.contains(kOfHeader)) return;
  const auto saved = metadata.at(kOfHeader).get<std::string>();
  const std::size_t place = place_of_seal(text);
  const std::string found =
      place == text.npos ? "elsewhere" : digits_of(seal_of(text, place));
  if (found != saved)
    throw UserError(
        "{}: the header is damaged: its checksum is {}, and {} when it was "
        "saved; {}",
        path, found, saved, kRemedy);
}

/// Reads checksums, which lie in the order of the header.
void take_checksums(const Json& metadata, const std::string& path,
                    std::vector<SafetensorsEntry>& entries) {
  if (!metadata.contains(kOfTensors)) return;
  const auto all = metadata.at(kOfTensors).get<std::string>();
  if (all.size() != entries.size() * kDigits)
    throw UserError(
        "{}: the header is damaged: {} digits of checksums for {} "
        "tensors; {}",
        path, all.size(), entries.size(), kRemedy);
  const char* next = all.data();
  for (SafetensorsEntry& entry : entries) {
    std::uint32_t checksum = 0;
    const auto [end, error] =
        std::from_chars(next, next + kDigits, checksum, 16);
    next += kDigits;
    if (error != std::errc() || end != next)
      throw UserError(
          "{}: the header is damaged: no checksum of tensor '{}'; "
          "{}",
          path, entry.name, kRemedy);
    entry.checksum = checksum;
  }
}

/// Reads which tensors aren't finite: a mark for each, in the order of the
/// header.
void take_not_finite(const Json& metadata, const std::string& path,
                     std::vector<SafetensorsEntry>& entries) {
  if (!metadata.contains(kNotFiniteNote)) return;
  const auto marks = metadata.at(kNotFiniteNote).get<std::string>();
  if (marks.size() != entries.size())
    throw UserError("{}: the header is damaged: {} marks for {} tensors; {}",
                    path, marks.size(), entries.size(), kRemedy);
  for (std::size_t i = 0; i < entries.size(); ++i)
    entries[i].is_noted_finite = marks[i] != '1';
}

}  // namespace

std::vector<std::pair<std::string, std::string>> checksum_notes(
    std::span<const std::uint32_t> tensors) {
  std::string all;
  for (const std::uint32_t checksum : tensors) all += digits_of(checksum);
  return {{kOfHeader, std::string(kDigits, '0')}, {kOfTensors, all}};
}

void seal(std::string& header) {
  const std::size_t place = place_of_seal(header);
  SLUICE_CHECK(place != header.npos, "a header without a place for its {}",
               kOfHeader);
  header.replace(place, kDigits, digits_of(seal_of(header, place)));
}

void check_checksum(const SafetensorsEntry& entry,
                    std::span<const std::byte> bytes, const std::string& path) {
  if (!entry.checksum) return;
  const std::uint32_t found = crc32c(bytes);
  if (found != *entry.checksum)
    throw UserError(
        "{}: tensor '{}' is damaged: its checksum is {}, and {} when it was "
        "saved; {}",
        path, entry.name, digits_of(found), digits_of(*entry.checksum),
        kRemedy);
}

std::string_view safetensors_name(DType dtype) {
  for (const TypeName& row : kTypes)
    if (row.dtype == dtype) return row.name;
  throw InternalError("no name for dtype {}", static_cast<int>(dtype));
}

DType safetensors_dtype(std::string_view name, const std::string& path) {
  for (const TypeName& row : kTypes)
    if (row.name == name) return row.dtype;
  throw UserError("{}: unknown element type '{}'", path, name);
}

std::vector<SafetensorsEntry> read_safetensors_header(
    std::istream& file, const std::string& path, std::uint64_t file_bytes) {
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!file || length > kMaxHeader || length + sizeof length > file_bytes)
    throw UserError("{}: no safetensors file: {} bytes, header of {}", path,
                    file_bytes, file ? length : 0);
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  std::vector<SafetensorsEntry> entries;
  try {
    HeaderReader reader(path, file_bytes - length - sizeof length);
    const Json header = Json::parse(
        text, [&](int depth, Json::parse_event_t event, const Json& parsed) {
          return reader.take(depth, event, parsed);
        });
    if (!header.is_object())
      throw UserError(
          "{}: the header is damaged: it holds {}, expected an "
          "object",
          path, header.type_name());
    check_seal(text, reader.metadata(), path);
    entries = reader.entries();
    take_checksums(reader.metadata(), path, entries);
    take_not_finite(reader.metadata(), path, entries);
  } catch (const Json::exception& error) {
    // "[json.exception.type_error.304] cannot use at() with number"
    const std::string_view reason = error.what();
    throw UserError("{}: the header is damaged: {}", path,
                    reason.substr(reason.find("] ") + 2));
  }
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  check_overlaps(entries, path);
  return entries;
}

}  // namespace sluice
