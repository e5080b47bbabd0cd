#include "experiments/config/left_out.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include <fmt/format.h>

#include "lib/base/files/user_text.h"

namespace sluice {

std::vector<std::string> lines_of(std::span<const DroppedKey> keys) {
  std::vector<DroppedKey> said;
  std::vector<std::string> choices;
  std::vector<std::string> lines;  // by choice
  for (const DroppedKey& key : keys) {
    if (std::find(said.begin(), said.end(), key) != said.end()) continue;
    said.push_back(key);
    const auto choice = std::find(choices.begin(), choices.end(), key.by);
    const auto at = static_cast<std::size_t>(choice - choices.begin());
    if (choice == choices.end()) {
      choices.push_back(key.by);
      lines.push_back(
          fmt::format("{} has dropped {} ({})", key.by, key.path, key.place));
    } else {
      lines[at] += fmt::format(", {} ({})", key.path, key.place);
    }
  }
  return lines;
}

void tell_left_out(const std::vector<std::string>& lines) {
  for (auto line = lines.begin(); line != lines.end(); ++line)
    if (std::find(lines.begin(), line, *line) == line)
      say("sluice: {}\n", *line);
}

}  // namespace sluice
