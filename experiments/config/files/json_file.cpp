#include "experiments/config/files/json_file.h"

#include "experiments/config/files/nesting.h"
#include "lib/base/error.h"
#include "lib/base/files/read_file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

/// A trace of many turns has hundreds of megabytes.
constexpr std::uint64_t kMostJsonBytes = std::uint64_t{2} << 30;

}  // namespace

Json parse_json(std::string_view text, const std::string& path) {
  const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepestNesting)
      throw UserError("{}: is nested more than {} deep", path, kDeepestNesting);
    return true;
  };
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::parse_error& error) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
      throw UserError("{}: is empty, expected JSON", path);
    throw UserError("{}: is damaged: byte {} is no part of JSON", path,
                    error.byte);
  } catch (const Json::exception& error) {
    throw UserError("{}: is damaged: {}", path, reason_of(error));
  }
}

Json read_json_file(const std::string& path) {
  return parse_json(read_file(path, kMostJsonBytes), path);
}

std::string reason_of(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const std::size_t at = text.find("] ");
  return at == std::string::npos ? text : text.substr(at + 2);
}

}  // namespace sluice
