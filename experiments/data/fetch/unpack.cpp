#include "experiments/data/fetch/unpack.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include <archive.h>
#include <archive_entry.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kArchiveBlockBytes = std::size_t{1} << 18;

struct FreeArchive {
  void operator()(::archive* reader) const { archive_read_free(reader); }
};
using Reader = std::unique_ptr<::archive, FreeArchive>;

[[noreturn]] void fail(const std::string& path, ::archive* reader) {
  const char* reason = archive_error_string(reader);
  throw UserError("{}: can't be unpacked: {}", path,
                  reason ? reason : "it is damaged");
}

Reader open(const std::string& path) {
  Reader reader(archive_read_new());
  SLUICE_CHECK(reader != nullptr, "libarchive can't be started");
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_format_tar(reader.get());
  if (archive_read_open_filename(reader.get(), path.c_str(),
                                 kArchiveBlockBytes) != ARCHIVE_OK)
    fail(path, reader.get());
  return reader;
}

/// The entry's path, when it stays below the folder that it is unpacked in.
fs::path checked_path(const std::string& archive, ::archive_entry* entry) {
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr) throw UserError("{}: has a file without name", archive);
  const fs::path path(name);
  const auto leaves = [](const fs::path& part) { return part == ".."; };
  if (path.is_absolute() || std::any_of(path.begin(), path.end(), leaves))
    throw UserError("{}: its file '{}' would lie outside of the folder",
                    archive, name);
  const auto type = archive_entry_filetype(entry);
  const bool is_link = archive_entry_hardlink(entry) != nullptr;
  if ((type != AE_IFREG && type != AE_IFDIR) || is_link)
    throw UserError("{}: '{}' is neither a file nor a folder", archive, name);
  return path;
}

void write_file(const std::string& archive, ::archive* reader,
                const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  const void* data = nullptr;
  std::size_t bytes = 0;
  la_int64_t offset = 0;
  int code = ARCHIVE_OK;
  while ((code = archive_read_data_block(reader, &data, &bytes, &offset)) ==
         ARCHIVE_OK) {
    file.seekp(offset);
    file.write(static_cast<const char*>(data),
               static_cast<std::streamsize>(bytes));
  }
  if (code != ARCHIVE_EOF) fail(archive, reader);
  errno = 0;
  file.close();
  if (!file) {
    throw UserError("{}: can't be written: {}", path.string(),
                    std::generic_category().message(errno ? errno : EIO));
  }
}

}  // namespace

void unpack(const std::string& archive, const std::string& folder) {
  const Reader reader = open(archive);
  ::archive_entry* entry = nullptr;
  for (;;) {
    const int code = archive_read_next_header(reader.get(), &entry);
    if (code == ARCHIVE_EOF) return;
    if (code != ARCHIVE_OK) fail(archive, reader.get());
    const fs::path path = fs::path(folder) / checked_path(archive, entry);
    if (archive_entry_filetype(entry) == AE_IFREG)
      write_file(archive, reader.get(), path);
  }
}

}  // namespace sluice
