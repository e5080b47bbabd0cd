#include "experiments/data/npz.h"

#include <algorithm>
#include <memory>
#include <span>

#include <archive.h>
#include <archive_entry.h>

#include "experiments/data/files/raw_file.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kZipBlock = std::size_t{1} << 18;
/// What no deflated bytes inflate to more than, times their number.
constexpr std::uint64_t kMostDeflation = 1100;

struct FreeZip {
  void operator()(::archive* zip) const { archive_read_free(zip); }
};
using Zip = std::unique_ptr<::archive, FreeZip>;

[[noreturn]] void fail_zip(const std::string& path, ::archive* zip) {
  const char* reason = archive_error_string(zip);
  throw UserError("{}: is a damaged .npz file: {}", path,
                  reason != nullptr ? reason : "no reason is known");
}

Zip open_zip(const std::string& path) {
  Zip zip(archive_read_new());
  SLUICE_CHECK(zip != nullptr, "libarchive can't be started");
  archive_read_support_format_zip(zip.get());
  if (archive_read_open_filename(zip.get(), path.c_str(), kZipBlock) !=
      ARCHIVE_OK)
    fail_zip(path, zip.get());
  return zip;
}

/// Goes on to the file `wanted` in the zip; how many bytes it has.
std::uint64_t find_entry(::archive* zip, const std::string& path,
                         const std::string& wanted, std::uint64_t zip_bytes) {
  ::archive_entry* entry = nullptr;
  for (;;) {
    const int code = archive_read_next_header(zip, &entry);
    if (code == ARCHIVE_EOF)
      throw UserError("{}: has no array '{}'", path, wanted);
    if (code != ARCHIVE_OK) fail_zip(path, zip);
    const char* name = archive_entry_pathname(entry);
    if (name != nullptr && name == wanted) break;
  }
  const la_int64_t bytes = archive_entry_size(entry);
  if (archive_entry_size_is_set(entry) == 0 || bytes < 0 ||
      static_cast<std::uint64_t>(bytes) / kMostDeflation > zip_bytes)
    throw UserError("{}: is a damaged .npz file: the size of '{}' is wrong",
                    path, wanted);
  return static_cast<std::uint64_t>(bytes);
}

/// At most `bytes.size()`; how many came before the end.
std::size_t read_entry(::archive* zip, const std::string& path,
                       std::span<std::uint8_t> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const la_ssize_t got =
        archive_read_data(zip, bytes.data() + done, bytes.size() - done);
    if (got < 0) fail_zip(path, zip);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

NpzArray read_array(const std::string& path, std::string_view name,
                    bool with_numbers) {
  const std::uint64_t zip_bytes = RawFile(path).size();
  const Zip zip = open_zip(path);
  const std::string wanted = std::string(name) + ".npy";
  const std::uint64_t bytes = find_entry(zip.get(), path, wanted, zip_bytes);
  std::vector<std::uint8_t> head(
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kMostNpyHead)));
  if (read_entry(zip.get(), path, head) != head.size())
    throw UserError("{}: ends within '{}'", path, wanted);
  NpzArray read = {.array = read_npy_header(head, path + ":" + wanted, bytes)};
  if (!with_numbers) return read;
  read.bytes.assign(
      head.begin() + static_cast<std::ptrdiff_t>(read.array.begin), head.end());
  const std::size_t had = read.bytes.size();
  read.bytes.resize(static_cast<std::size_t>(bytes - read.array.begin));
  const std::span rest = std::span(read.bytes).subspan(had);
  if (read_entry(zip.get(), path, rest) != rest.size())
    throw UserError("{}: ends within '{}'", path, wanted);
  return read;
}

}  // namespace

NpzArray read_npz(const std::string& path, std::string_view name) {
  return read_array(path, name, /*with_numbers=*/true);
}

NpzArray read_npz_header(const std::string& path, std::string_view name) {
  return read_array(path, name, /*with_numbers=*/false);
}

}  // namespace sluice
