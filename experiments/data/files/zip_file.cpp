#include "experiments/data/files/zip_file.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <zlib.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

using ZipBytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kEndOfDirectory = 0x06054b50;
constexpr std::uint32_t kEndOfDirectory64 = 0x06064b50;
constexpr std::uint32_t kLocatorOfThat = 0x07064b50;
constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kMostComment = 0xffff;
constexpr std::uint64_t kMostDirectory = std::uint64_t{1} << 20;
constexpr std::uint32_t kIn64 = 0xffffffff;  // "see the Zip64 fields"
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint16_t kDeflate = 8;
/// Upper limit of the ratio by which deflated bytes grow.
constexpr std::uint64_t kMostDeflation = 1100;
constexpr std::size_t kPackedAtOnce = std::size_t{1} << 18;

[[noreturn]] void fail_zip(const RawFile& zip, std::string_view why) {
  throw UserError("{}: is a damaged .npz file, or none: {}", zip.path(), why);
}

/// Little-endian; the caller has seen that the bytes are there.
std::uint64_t zip_number(std::span<const std::uint8_t> bytes, std::size_t at,
                         std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i)
    number |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
  return number;
}

/// Numbers of a record of the zip, by where they stand in it.
struct ZipRecord {
  std::span<const std::uint8_t> bytes;

  std::uint16_t two(std::size_t at) const {
    return static_cast<std::uint16_t>(zip_number(bytes, at, 2));
  }
  std::uint32_t four(std::size_t at) const {
    return static_cast<std::uint32_t>(zip_number(bytes, at, 4));
  }
  std::uint64_t eight(std::size_t at) const { return zip_number(bytes, at, 8); }
};

ZipBytes read_zip(const RawFile& zip, std::uint64_t begin, std::uint64_t size) {
  if (begin > zip.size() || size > zip.size() - begin)
    fail_zip(zip, "what it points to lies behind its end");
  ZipBytes bytes(static_cast<std::size_t>(size));
  zip.read(begin, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

struct ZipDirectory {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

/// The directory of a Zip64 file: a locator before the end record points to its
/// record.
ZipDirectory directory_64(const RawFile& zip, std::uint64_t end) {
  if (end < kLocatorBytes) fail_zip(zip, "it has no directory");
  const ZipBytes locator = read_zip(zip, end - kLocatorBytes, kLocatorBytes);
  if (ZipRecord{locator}.four(0) != kLocatorOfThat)
    fail_zip(zip, "it has no Zip64 directory");
  const ZipBytes record =
      read_zip(zip, ZipRecord{locator}.eight(8), kEnd64Bytes);
  if (ZipRecord{record}.four(0) != kEndOfDirectory64)
    fail_zip(zip, "it has no Zip64 directory");
  return {.begin = ZipRecord{record}.eight(48),
          .size = ZipRecord{record}.eight(40)};
}

/// The end record stands at the end, with nothing but a comment behind it.
ZipDirectory directory_of(const RawFile& zip) {
  const std::uint64_t tail_bytes =
      std::min<std::uint64_t>(zip.size(), kEndBytes + kMostComment);
  const std::uint64_t tail_begin = zip.size() - tail_bytes;
  const ZipBytes tail = read_zip(zip, tail_begin, tail_bytes);
  for (std::size_t at = tail.size(); at-- > 0;) {
    const std::size_t left = tail.size() - at;
    if (left < kEndBytes) continue;
    const ZipRecord record = {std::span(tail).subspan(at)};
    if (record.four(0) != kEndOfDirectory || kEndBytes + record.two(20) != left)
      continue;
    if (record.four(12) == kIn64 || record.four(16) == kIn64)
      return directory_64(zip, tail_begin + at);
    return {.begin = record.four(16), .size = record.four(12)};
  }
  fail_zip(zip, "it does not end as a zip does");
}

/// Replaces the sizes and the place that are said to be in the entry's Zip64
/// field, where they stand in this order.
void read_zip64_field(const RawFile& zip, std::span<const std::uint8_t> extra,
                      std::span<std::uint64_t* const> wanted) {
  if (wanted.empty()) return;
  while (extra.size() >= 4) {
    const ZipRecord field = {extra};
    const std::size_t size = field.two(2);
    if (size > extra.size() - 4) break;
    if (field.two(0) == kZip64Field && size >= 8 * wanted.size()) {
      for (std::size_t i = 0; i < wanted.size(); ++i)
        *wanted[i] = field.eight(4 + 8 * i);
      return;
    }
    extra = extra.subspan(4 + size);
  }
  fail_zip(zip, "it has no Zip64 field where it says so");
}

struct ZipEntry {
  ZippedFile file = {};
  std::uint64_t header = 0;  // where the local header stands
};

ZipEntry read_zip_entry(const RawFile& zip, const ZipRecord& record,
                        std::span<const std::uint8_t> extra) {
  const bool is_encrypted = (record.two(8) & 1) != 0;
  const std::uint16_t method = record.two(10);
  if (is_encrypted || (method != 0 && method != kDeflate))
    throw UserError(
        "{}: its files are encrypted, or packed by another method than "
        "deflate: write it anew with numpy.savez",
        zip.path());
  ZipEntry entry = {.file = {.packed = record.four(20),
                             .bytes = record.four(24),
                             .checksum = record.four(16),
                             .deflated = method == kDeflate},
                    .header = record.four(42)};
  std::vector<std::uint64_t*> wanted;
  for (std::uint64_t* number :
       {&entry.file.bytes, &entry.file.packed, &entry.header})
    if (*number == kIn64) wanted.push_back(number);
  read_zip64_field(zip, extra, wanted);
  return entry;
}

/// The file whose entry this is, once its own header has been read.
ZippedFile located_in_zip(const RawFile& zip, const ZipEntry& entry) {
  ZippedFile file = entry.file;
  const ZipBytes header = read_zip(zip, entry.header, kLocalBytes);
  const ZipRecord record = {header};
  if (record.four(0) != kLocalHeader)
    fail_zip(zip, "its directory points to no file");
  file.begin = entry.header + kLocalBytes + record.two(26) + record.two(28);
  const bool is_whole =
      file.begin <= zip.size() && file.packed <= zip.size() - file.begin;
  const bool is_plausible = file.deflated
                                ? file.bytes / kMostDeflation <= file.packed
                                : file.bytes == file.packed;
  if (!is_whole || !is_plausible) fail_zip(zip, "a size in it is wrong");
  return file;
}

}  // namespace

ZippedFile find_in_zip(const RawFile& zip, std::string_view name) {
  const ZipDirectory directory = directory_of(zip);
  if (directory.size > kMostDirectory)
    fail_zip(zip, "its directory is too large");
  const ZipBytes bytes = read_zip(zip, directory.begin, directory.size);
  std::span<const std::uint8_t> rest = bytes;
  while (!rest.empty()) {
    const ZipRecord record = {rest};
    if (rest.size() < kEntryBytes || record.four(0) != kDirectoryEntry)
      fail_zip(zip, "an entry of its directory is none");
    const std::size_t name_bytes = record.two(28);
    const std::size_t extra_bytes = record.two(30);
    const std::size_t entry_bytes =
        kEntryBytes + name_bytes + extra_bytes + record.two(32);
    if (entry_bytes > rest.size()) fail_zip(zip, "its directory is cut off");
    const std::span<const std::uint8_t> found =
        rest.subspan(kEntryBytes, name_bytes);
    if (std::equal(found.begin(), found.end(), name.begin(), name.end()))
      return located_in_zip(
          zip,
          read_zip_entry(zip, record,
                         rest.subspan(kEntryBytes + name_bytes, extra_bytes)));
    rest = rest.subspan(entry_bytes);
  }
  throw UserError("{}: has no array '{}'", zip.path(), name);
}

/// zlib's state, for bytes without a header of their own.
struct ZipReader::Inflation {
  z_stream stream = {};
  ZipBytes packed = {};

  Inflation() {
    SLUICE_CHECK(::inflateInit2(&stream, -MAX_WBITS) == Z_OK,
                 "zlib can't be started");
  }
  ~Inflation() { ::inflateEnd(&stream); }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
};

ZipReader::ZipReader(const RawFile& zip, const ZippedFile& file)
    : zip_(zip), file_(file) {
  if (file.deflated) inflation_ = std::make_unique<Inflation>();
}

ZipReader::~ZipReader() = default;

void ZipReader::inflate_into(std::span<std::uint8_t> bytes) {
  z_stream& stream = inflation_->stream;
  while (!bytes.empty()) {
    if (stream.avail_in == 0 && taken_ < file_.packed) {
      const std::uint64_t next =
          std::min<std::uint64_t>(file_.packed - taken_, kPackedAtOnce);
      inflation_->packed = read_zip(zip_, file_.begin + taken_, next);
      taken_ += next;
      stream.next_in = inflation_->packed.data();
      stream.avail_in = static_cast<uInt>(next);
    }
    const std::size_t room =
        std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
    stream.next_out = bytes.data();
    stream.avail_out = static_cast<uInt>(room);
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    const std::size_t got = room - stream.avail_out;
    const bool ended = code == Z_STREAM_END && got < room;
    if ((code != Z_OK && code != Z_STREAM_END) || ended)
      fail_zip(zip_, "what is deflated in it can't be inflated");
    bytes = bytes.subspan(got);
  }
}

void ZipReader::read(std::span<std::uint8_t> bytes) {
  SLUICE_CHECK(bytes.size() <= file_.bytes - given_,
               "{} bytes are asked for where {} are left", bytes.size(),
               file_.bytes - given_);
  if (file_.deflated)
    inflate_into(bytes);
  else
    zip_.read(file_.begin + given_, std::as_writable_bytes(bytes));
  given_ += bytes.size();
  checksum_ = static_cast<std::uint32_t>(
      ::crc32_z(checksum_, bytes.data(), bytes.size()));
  if (given_ == file_.bytes && checksum_ != file_.checksum)
    fail_zip(zip_, "a checksum in it is wrong");
}

}  // namespace sluice
