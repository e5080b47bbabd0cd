#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace sluice {

/// A text of JSON, of whatever depth our own files have. Throws UserError
/// "PATH: ..." in words of ours when it is none.
nlohmann::ordered_json parse_json(std::string_view text,
                                  const std::string& path);

/// A regular file with such a text. Throws UserError that names it.
nlohmann::ordered_json read_json_file(const std::string& path);

/// Reason why nlohmann refuses a value, without its numbers and names of types
/// that are ours to say: "key 'seeds' not found".
std::string reason_of(const nlohmann::json::exception& error);

}  // namespace sluice
