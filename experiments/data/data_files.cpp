#include "experiments/data/data_files.h"

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <system_error>

#include <zlib.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr const char* kHowToNameTheRoot =
    "name the folder of data files with data.root in the config or with the "
    "environment variable SLUICE_DATA";

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};
using GzFile = std::unique_ptr<gzFile_s, CloseGz>;

/// As std::strerror, which threads may not share.
std::string error_text(int code) {
  return std::generic_category().message(code);
}

[[noreturn]] void fail_reading(const std::string& path, gzFile_s* file) {
  int code = Z_OK;
  std::string text = gzerror(file, &code);
  if (code == Z_ERRNO) text = error_text(errno);
  throw UserError("{}: can't be read: {}", path, text);
}

}  // namespace

std::string find_data_file(const std::string& root, const std::string& folder,
                           const std::string& name) {
  const std::string wanted = (std::filesystem::path(folder) / name).string();
  if (root.empty()) {
    throw UserError("the data set needs the file {}; {}", wanted,
                    kHowToNameTheRoot);
  }
  const std::string path = (std::filesystem::path(root) / wanted).string();
  for (const std::string& candidate : {path, path + ".gz"}) {
    if (std::filesystem::is_regular_file(candidate)) return candidate;
  }
  throw UserError("no file {} (nor the same with .gz); {}", path,
                  kHowToNameTheRoot);
}

std::vector<std::uint8_t> read_data_file(const std::string& path) {
  // zlib reads a file that is not gzipped as it is.
  const GzFile file(gzopen(path.c_str(), "rb"));
  if (!file)
    throw UserError("{}: can't be opened: {}", path, error_text(errno));
  gzbuffer(file.get(), 1U << 17);
  std::vector<std::uint8_t> bytes;
  for (;;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kChunkBytes);
    const int got = gzread(file.get(), bytes.data() + before, kChunkBytes);
    if (got < 0) fail_reading(path, file.get());
    bytes.resize(before + static_cast<std::size_t>(got));
    if (static_cast<std::size_t>(got) < kChunkBytes) break;
  }
  // A truncated gzip stream ends like a file, with an error on the side.
  int code = Z_OK;
  gzerror(file.get(), &code);
  if (code != Z_OK) fail_reading(path, file.get());
  return bytes;
}

}  // namespace sluice
