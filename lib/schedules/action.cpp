#include "lib/schedules/action.h"

#include <charconv>
#include <sstream>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::string_view kLetters = "FBUELC";

}  // namespace

std::string to_text(const Action& action) {
  return fmt::format("{}{}", kLetters[static_cast<std::size_t>(action.kind)],
                     action.batch);
}

std::vector<Action> actions_from_text(std::string_view line) {
  std::vector<Action> actions;
  std::istringstream words{std::string(line)};
  for (std::string word; words >> word;) {
    const std::size_t kind = kLetters.find(word.front());
    Action action;
    const char* end = word.data() + word.size();
    const auto parsed = std::from_chars(word.data() + 1, end, action.batch);
    if (kind == std::string_view::npos || parsed.ec != std::errc() ||
        parsed.ptr != end || action.batch < 0)
      throw UserError(
          "'{}' is no action; an action is one of F, B, U, E, L, C and a batch "
          "number, as in 'F0 B0 U0'",
          word);
    action.kind = static_cast<ActionKind>(kind);
    actions.push_back(action);
  }
  return actions;
}

}  // namespace sluice
