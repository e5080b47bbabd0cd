#include "experiments/data/files/data_files.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>

#include <zlib.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 15;
/// What no gzipped text or image reaches, and what may be read of any file.
constexpr std::uint64_t kMostInflation = 100;
constexpr std::uint64_t kAlwaysInflated = std::uint64_t{64} << 20;
constexpr const char* kHowToNameTheRoot =
    "name the folder of data files with data.root in the config or with the "
    "environment variable SLUICE_DATA, or get them with `sluice data fetch`";

constexpr const char* kCorrectThePath =
    "correct the path; one that doesn't begin with / is looked for beside the "
    "config (of the command line, in the current folder) and below data.root";

/// Files that a config names itself were looked for there first.
constexpr const char* kNorBeside =
    ", nor such a one beside the config or, of the command line, in the "
    "current folder";

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};
using GzFile = std::unique_ptr<gzFile_s, CloseGz>;

/// The system's text of an error; std::strerror may not be called by several
/// threads.
std::string error_text(int code) {
  return std::generic_category().message(code);
}

/// Opens the file for reading: decompressed, or as it is when it is not
/// gzipped. Throws UserError.
GzFile open_data_file(const std::string& path) {
  GzFile file(gzopen(path.c_str(), "rbe"));  // e: no child inherits it
  if (!file)
    throw UserError(
        "{}: can't be opened: {}; correct the path, or who may read "
        "the file",
        path, error_text(errno));
  gzbuffer(file.get(), kChunkBytes);
  return file;
}

[[noreturn]] void fail_reading(const std::string& path, gzFile_s* file) {
  int code = Z_OK;
  std::string text = gzerror(file, &code);
  if (code == Z_ERRNO) text = error_text(errno);
  if (text.starts_with(path + ": ")) text.erase(0, path.size() + 2);
  throw UserError("{}: can't be read: {}; if it is damaged, get it again", path,
                  text);
}

/// Fills the start of `bytes`; how many came before the end of the file.
std::size_t read_some(const std::string& path, gzFile_s* file,
                      std::span<std::uint8_t> bytes) {
  const int got =
      gzread(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  if (got < 0) fail_reading(path, file);
  // A truncated gzip stream ends like a file, with an error on the side.
  int code = Z_OK;
  gzerror(file, &code);
  if (code != Z_OK) fail_reading(path, file);
  return static_cast<std::size_t>(got);
}

/// A gzipped file of some kilobytes can fill any memory.
class InflationGuard {
 public:
  InflationGuard(const std::string& path, gzFile_s* file)
      : path_(path),
        most_(gzdirect(file) != 0
                  ? std::numeric_limits<std::uint64_t>::max()
                  : std::max(
                        kAlwaysInflated,
                        kMostInflation * std::filesystem::file_size(path))) {}

  void took(std::size_t bytes) {
    total_ += bytes;
    if (total_ > most_)
      throw UserError(
          "{}: inflates to more than {} bytes, {} times its size: it is "
          "damaged, or made to fill the memory; gunzip it if it is neither",
          path_, most_, kMostInflation);
  }

 private:
  const std::string& path_;
  std::uint64_t most_;
  std::uint64_t total_ = 0;
};

}  // namespace

std::string find_data_file(const std::string& root, const std::string& folder,
                           const std::string& name) {
  const std::filesystem::path wanted = std::filesystem::path(folder) / name;
  if (root.empty() && wanted.is_relative()) {
    throw UserError("the data set needs the file {}{}; {}", wanted.string(),
                    folder.empty() ? kNorBeside : "", kHowToNameTheRoot);
  }
  const std::string path = (std::filesystem::path(root) / wanted).string();
  for (const std::string& candidate : {path, path + ".gz"}) {
    if (std::filesystem::is_regular_file(candidate)) return candidate;
  }
  if (wanted.is_absolute())
    throw UserError("no file {}; {}", path, kCorrectThePath);
  throw UserError("no file {} (nor the same with .gz){}; {}", path,
                  folder.empty() ? kNorBeside : "", kHowToNameTheRoot);
}

std::string find_data_folder(const std::string& root,
                             const std::string& folder) {
  const std::filesystem::path wanted = folder;
  if (root.empty() && wanted.is_relative())
    throw UserError("the data set needs the folder {}{}; {}", folder,
                    kNorBeside, kHowToNameTheRoot);
  const std::string path = (std::filesystem::path(root) / wanted).string();
  if (std::filesystem::is_directory(path)) return path;
  if (wanted.is_absolute())
    throw UserError("no folder {}; {}", path, kCorrectThePath);
  throw UserError("no folder {}{}; {}", path, kNorBeside, kHowToNameTheRoot);
}

void scan_data_file(
    const std::string& path,
    const std::function<void(std::span<const std::uint8_t>)>& take) {
  const GzFile file = open_data_file(path);
  InflationGuard guard(path, file.get());
  std::vector<std::uint8_t> chunk(kChunkBytes);
  for (;;) {
    const std::size_t got = read_some(path, file.get(), chunk);
    guard.took(got);
    take(std::span(chunk).first(got));
    if (got < chunk.size()) return;
  }
}

std::vector<std::uint8_t> read_data_file(const std::string& path,
                                         std::uint64_t most) {
  std::vector<std::uint8_t> bytes;
  scan_data_file(path, [&](std::span<const std::uint8_t> piece) {
    if (bytes.size() + piece.size() > most)
      throw UserError(
          "{}: goes on behind the {} bytes that its header promises", path,
          most);
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

std::vector<std::uint8_t> read_data_head(const std::string& path,
                                         std::size_t bytes) {
  const GzFile file = open_data_file(path);
  std::vector<std::uint8_t> head(bytes);
  head.resize(read_some(path, file.get(), head));
  return head;
}

std::uint64_t data_file_size(const std::string& path) {
  if (!is_gzipped(path)) return std::filesystem::file_size(path);
  std::uint64_t size = 0;
  scan_data_file(
      path, [&](std::span<const std::uint8_t> piece) { size += piece.size(); });
  return size;
}

bool is_gzipped(const std::string& path) {
  return gzdirect(open_data_file(path).get()) == 0;
}

}  // namespace sluice
