// Suggestions for a key that its table doesn't have: the place where it is
// meant to be.
#include <algorithm>
#include <cctype>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/manual/catalog.h"
#include "lib/base/nearest.h"

namespace sluice {
namespace {

/// The choice under which the table has `key`, where it hasn't as it is.
std::string other_choice(const std::vector<KnownKey>& known,
                         const std::string& key) {
  std::vector<std::string> choices;
  for (const KnownKey& each : known)
    if (each.doc.path == key)
      choices.insert(choices.end(), each.with.begin(), each.with.end());
  if (choices.empty()) return "";
  return fmt::format(" (it is there with {})", fmt::join(choices, " or "));
}

/// Keys of that name in other tables, which the command line can set: those
/// that always are there, or else those that a choice brings.
std::vector<std::string> of_that_name(const std::vector<KnownKey>& known,
                                      std::string_view name) {
  std::vector<std::string> always;
  std::vector<std::string> chosen;
  for (const KnownKey& each : known) {
    const std::string& path = each.doc.path;
    const bool is_element = path.find("[]") != std::string::npos;
    if (key_name(path) != name || is_element) continue;
    std::vector<std::string>& paths = each.with.empty() ? always : chosen;
    if (std::find(paths.begin(), paths.end(), path) == paths.end())
      paths.push_back(path);
  }
  return always.empty() ? chosen : always;
}

}  // namespace

std::string_view key_name(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

namespace {

/// "boundary.codec.ratio" of "boundary.codec.up.ratio".
std::string of_both_ways(std::string path) {
  for (const std::string_view way : {"up", "down"}) {
    const std::string own = fmt::format("boundary.codec.{}", way);
    if (path == own || path.starts_with(own + "."))
      path.erase(own.size() - way.size() - 1, way.size() + 1);
  }
  return path;
}

}  // namespace

std::string key_of_all(const std::string& path) {
  for (const std::string_view table : {"boundary.", "optimizer."}) {
    if (!path.starts_with(table)) continue;
    const std::size_t end = path.find('.', table.size());
    if (end == std::string::npos) continue;
    const std::string part = path.substr(table.size(), end - table.size());
    const bool is_number =
        std::all_of(part.begin(), part.end(),
                    [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_number || part == "last")
      return of_both_ways(std::string(table) + path.substr(end + 1));
  }
  return of_both_ways(path);
}

std::string with_suggestion(const UnknownKey& error) {
  constexpr std::size_t kMostSuggested = 3;
  const std::vector<KnownKey> known = known_keys();
  const std::string key = key_of_all(error.path());
  std::string hint = other_choice(known, key);
  if (hint.empty()) hint = error.hint();
  if (hint.empty()) {
    const auto paths = of_that_name(known, key_name(key));
    if (!paths.empty() && paths.size() <= kMostSuggested)
      hint = fmt::format(" (did you mean '{}'?)", fmt::join(paths, "' or '"));
  }
  if (hint.empty()) {
    std::vector<std::string> paths;
    for (const KnownKey& each : known) paths.push_back(each.doc.path);
    hint = perhaps(key, paths);
  }
  return error.place() + hint + error.rest();
}

}  // namespace sluice
