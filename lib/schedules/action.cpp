#include "lib/schedules/action.h"

#include <charconv>
#include <sstream>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::string_view kLetters = "FBUELCI";

/// Takes a number from the front of what is left of a word.
bool take_number(std::string_view& left, std::int64_t& number) {
  const char* end = left.data() + left.size();
  const auto [rest, error] = std::from_chars(left.data(), end, number);
  left = {rest, static_cast<std::size_t>(end - rest)};
  return error == std::errc() && number >= 0;
}

bool take_sign(std::string_view& left, char sign) {
  if (!left.starts_with(sign)) return false;
  left.remove_prefix(1);
  return true;
}

/// Reads "F5", "F5<7", "F5-3-4" or "F5<7-3-4"; false when the word is no
/// action.
bool parse(std::string_view word, Action& action) {
  const std::size_t kind = kLetters.find(word.front());
  if (kind == std::string_view::npos) return false;
  action.kind = static_cast<ActionKind>(kind);
  std::string_view left = word.substr(1);
  if (!take_number(left, action.batch)) return false;
  if (action.kind != ActionKind::forward) return left.empty();
  if (take_sign(left, '<') &&
      (!take_number(left, action.arrived) || action.arrived == 0))
    return false;
  while (take_sign(left, '-'))
    if (!take_number(left, action.dropped.emplace_back())) return false;
  return left.empty();
}

}  // namespace

std::string_view name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::update:
      return "update";
    case ActionKind::evaluate:
      return "evaluate";
    case ActionKind::learn:
      return "learn";
    case ActionKind::checkpoint:
      return "checkpoint";
    case ActionKind::learn_input:
      return "learn input";
  }
  return "";
}

std::string to_text(const Action& action) {
  std::string text = fmt::format(
      "{}{}", kLetters[static_cast<std::size_t>(action.kind)], action.batch);
  if (action.arrived > 0) text += fmt::format("<{}", action.arrived);
  for (const std::int64_t batch : action.dropped)
    text += fmt::format("-{}", batch);
  return text;
}

std::vector<Action> actions_from_text(std::string_view line) {
  std::vector<Action> actions;
  std::istringstream words{std::string(line)};
  for (std::string word; words >> word;) {
    Action action;
    if (!parse(word, action))
      throw UserError(
          "'{}' is no action; an action is one of F, B, U, E, L, C, I and a "
          "batch "
          "number, as in 'F0 B0 U0'",
          word);
    actions.push_back(action);
  }
  return actions;
}

}  // namespace sluice
