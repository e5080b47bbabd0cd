#include "experiments/data/files/shard_files.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <glob.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// More files than any published set has.
constexpr std::int64_t kMostShards = 1'000'000;

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 0) return std::nullopt;
  return number;
}

/// "a{01..03}.tar": three names. Nothing: there is no such range in it.
std::optional<std::vector<std::string>> names_of_range(
    const std::string& name) {
  const std::size_t open = name.find('{');
  const std::size_t dots = name.find("..", std::min(open, name.size()));
  const std::size_t close = name.find('}', std::min(dots, name.size()));
  if (close == std::string::npos) return std::nullopt;
  const std::string first = name.substr(open + 1, dots - open - 1);
  const auto begin = whole_number(first);
  const auto last =
      whole_number(std::string_view(name).substr(dots + 2, close - dots - 2));
  if (!begin || !last) return std::nullopt;
  if (*last < *begin)
    throw UserError(
        "{}: the range in braces goes from {} to {}; give the smaller number "
        "first, as in {{000..146}}",
        name, *begin, *last);
  if (*last - *begin >= kMostShards)
    throw UserError("{}: the range in braces has more than {} numbers", name,
                    kMostShards);
  if (name.find_first_of("{*?[", close) != std::string::npos)
    throw UserError(
        "{}: a name has one range or one pattern; give several names as a list",
        name);
  std::vector<std::string> names;
  for (std::int64_t number = *begin; number <= *last; ++number)
    names.push_back(fmt::format("{}{:0{}}{}", name.substr(0, open), number,
                                first.size(), name.substr(close + 1)));
  return names;
}

bool is_pattern(const std::string& name) {
  return name.find_first_of("*?[") != std::string::npos;
}

/// The folder as a pattern that matches it alone.
std::string escaped(const std::string& folder) {
  std::string pattern;
  for (const char each : folder) {
    if (std::string_view("*?[\\").find(each) != std::string_view::npos)
      pattern += '\\';
    pattern += each;
  }
  return pattern;
}

std::vector<std::string> files_that_match(const std::string& folder,
                                          const std::string& name) {
  const std::string pattern =
      (std::filesystem::path(escaped(folder)) / name).string();
  std::vector<std::string> files;
  glob_t found = {};
  // Unsafe where it reads the users' table, for a tilde, which isn't asked for.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  if (status == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i)
      if (std::filesystem::is_regular_file(found.gl_pathv[i]))
        files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  std::sort(files.begin(), files.end());
  return files;
}

std::string file_at(const std::string& path) {
  for (std::string candidate : {path, path + ".gz"})
    if (std::filesystem::is_regular_file(candidate)) return candidate;
  throw UserError("no file {}; correct the name, or the folder", path);
}

std::vector<std::string> files_of(const std::string& folder,
                                  const std::string& name) {
  std::vector<std::string> files;
  if (const auto names = names_of_range(name)) {
    for (const std::string& each : *names)
      files.push_back(file_at((std::filesystem::path(folder) / each).string()));
    return files;
  }
  const std::string path = (std::filesystem::path(folder) / name).string();
  if (!is_pattern(name) || std::filesystem::is_regular_file(path))
    return {file_at(path)};
  files = files_that_match(folder, name);
  if (files.empty())
    throw UserError("no file matches {}; correct the pattern, or the folder",
                    path);
  return files;
}

}  // namespace

std::vector<std::string> find_shards(const std::string& folder,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names)
    for (std::string& file : files_of(folder, name))
      files.push_back(std::move(file));
  return files;
}

}  // namespace sluice
