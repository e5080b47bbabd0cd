#pragma once

#include <string>
#include <vector>

#include "lib/base/config_node.h"

namespace sluice {

/// A config or a command of a claim. The line that refuses it has all `errors`;
/// it is accepted where there are none.
struct ClaimCase {
  ConfigNode keys;  ///< without `error`, over both bases
  std::vector<std::string> errors;
  std::string place;  ///< file:line
};

/// Rule of a TOML file, with what keeps and breaks it: a table whose name is a
/// sentence, with lists `refused` (each case has an `error`, one text or
/// several) and `accepted`. The tables `base` of the file and of the claim lie
/// under the keys of its cases.
struct Claim {
  std::string name;   ///< file and sentence, as GoogleTest wants it
  std::string fault;  ///< why the file can't be read, or empty
  std::vector<ClaimCase> cases;
};

/// Claims of all files in a folder below tests/.
std::vector<Claim> claims_in(const std::string& folder);

/// `over` laid over `under`, table by table.
ConfigNode laid_over(const ConfigNode& under, const ConfigNode& over);

}  // namespace sluice
