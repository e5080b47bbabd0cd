#include "experiments/data/fetch/fetch.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "experiments/data/fetch/unpack.h"
#include "experiments/data/files/sha256.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string url_of(const PublishedSet& set, const PublishedFile& file,
                   const FetchOptions& options) {
  std::string url = options.url.empty() ? std::string(set.url) : options.url;
  while (url.ends_with('/')) url.pop_back();
  return fmt::format("{}/{}", url, file.name);
}

/// Whether the file is there; a gzipped one may have been unpacked, which its
/// readers take too.
bool is_there(const fs::path& path) {
  return fs::exists(path) || (path.extension() == ".gz" &&
                              fs::exists(fs::path(path).replace_extension()));
}

/// The bytes of `partial` that a download can go on from.
std::int64_t bytes_of(const fs::path& partial, const PublishedFile& file) {
  if (!fs::exists(partial)) return 0;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(partial));
  if (bytes <= file.bytes) return bytes;
  fs::remove(partial);
  return 0;
}

/// Makes `partial` the published file, or throws.
void get(const PublishedSet& set, const PublishedFile& file,
         const fs::path& partial, const FetchOptions& options) {
  const std::string url = url_of(set, file, options);
  const std::string name = fmt::format("{}/{}", set.folder, file.name);
  for (;;) {
    const std::int64_t before = bytes_of(partial, file);
    if (before < file.bytes)
      download(url, partial.string(), file.bytes,
               [&](std::int64_t here, std::int64_t all) {
                 options.progress(name, here, all);
               });
    const std::string sum = sha256_of_file(partial.string());
    if (sum == file.sha256) return;
    fs::remove(partial);
    if (before == 0)
      throw UserError(
          "{}: has the SHA-256 {}, but {} was published; nothing "
          "of it was kept",
          url, sum, file.sha256);
    options.say(fmt::format(
        "{}: the part that was here does not fit; starting again", name));
  }
}

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

void fetch_file(const PublishedSet& set, const PublishedFile& file,
                const FetchOptions& options) {
  const fs::path path = fs::path(options.root) / set.folder / file.name;
  if (is_there(path))
    return options.say(fmt::format("{} is there", path.string()));
  fs::create_directories(path.parent_path());
  const fs::path partial = path.string() + ".partial";
  get(set, file, partial, options);
  fs::rename(partial, path);
  options.say(
      fmt::format("{}  {}, checked", path.string(), megabytes(file.bytes)));
}

/// A folder of ours in `root`, removed with what is still in it.
class ScratchFolder {
 public:
  explicit ScratchFolder(const fs::path& root) {
    std::string pattern = (root / ".unpacking-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw UserError("{}: no folder can be made in it", root.string());
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<std::string_view> missing(const PublishedSet& set,
                                      const fs::path& folder) {
  std::vector<std::string_view> names;
  for (const std::string_view name : set.unpacked)
    if (!is_there(folder / name)) names.push_back(name);
  return names;
}

void fetch_archive(const PublishedSet& set, const FetchOptions& options) {
  const fs::path root = options.root;
  const fs::path folder = root / set.folder;
  const auto wanted = missing(set, folder);
  if (wanted.empty())
    return options.say(fmt::format("{} is there", folder.string()));
  const PublishedFile& file = set.files.front();
  const fs::path partial = root / fmt::format("{}.partial", file.name);
  fs::create_directories(folder);
  get(set, file, partial, options);
  const ScratchFolder scratch(root);
  unpack(partial.string(), scratch.path().string());
  const auto absent = missing(set, scratch.path() / set.folder);
  if (!absent.empty())
    throw UserError("{}: has no file {}/{}", url_of(set, file, options),
                    set.folder, absent.front());
  for (const std::string_view name : wanted)
    fs::rename(scratch.path() / set.folder / name, folder / name);
  fs::remove(partial);
  options.say(fmt::format("{}  {}, checked and unpacked", folder.string(),
                          megabytes(file.bytes)));
}

}  // namespace

void fetch(const PublishedSet& set, const FetchOptions& options) {
  try {
    if (!set.unpacked.empty()) return fetch_archive(set, options);
    for (const PublishedFile& file : set.files) fetch_file(set, file, options);
  } catch (const fs::filesystem_error& error) {
    throw UserError("{}: {}", error.path1().string(), error.code().message());
  }
}

bool is_fetched(const PublishedSet& set, const std::string& root) {
  const fs::path folder = fs::path(root) / set.folder;
  if (!set.unpacked.empty()) return missing(set, folder).empty();
  return std::all_of(
      set.files.begin(), set.files.end(),
      [&](const PublishedFile& file) { return is_there(folder / file.name); });
}

}  // namespace sluice
