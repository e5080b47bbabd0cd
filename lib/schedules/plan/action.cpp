#include "lib/schedules/plan/action.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "lib/base/error.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/op_table.h"

namespace sluice {
namespace {

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

/// Takes the number behind the batch, if one is there.
bool take_round(std::string_view& left, ExchangeKind of_window,
                Action& action) {
  std::int64_t number = 0;
  if (take_sign(left, '.') && (!take_number(left, number) || number == 0))
    return false;
  if (!is_exchange(action.op)) {
    action.round = number;
    return true;
  }
  action.kind = number == 0 ? of_window : exchange_of_number(number);
  return action.kind != ExchangeKind::none;
}

/// Reads "F5", "F5.1", "F5<7", "F5-3-4", "F5<7-3-4", "S5<7" or "S5.5<9-6-7";
/// false when the word is no action.
bool parse(std::string_view word, ExchangeKind of_window, Action& action) {
  const auto row = std::find_if(
      op_rows().begin(), op_rows().end(),
      [&](const OpRow& each) { return each.letter == word.front(); });
  if (row == op_rows().end()) return false;
  action.op = row->op;
  std::string_view left = word.substr(1);
  if (!take_number(left, action.batch)) return false;
  if (!take_round(left, of_window, action)) return false;
  const bool has_place = action.op == Op::forward || action.op == Op::settle;
  if (has_place && take_sign(left, '<') &&
      (!take_number(left, action.arrived) || action.arrived == 0))
    return false;
  const bool may_leave_out =
      action.op == Op::forward || action.kind == ExchangeKind::pull;
  if (!may_leave_out) return left.empty();
  while (take_sign(left, '-'))
    if (!take_number(left, action.dropped.emplace_back())) return false;
  return left.empty();
}

/// Reads "P1".
bool begins_phase(std::string_view word, std::int64_t& phase) {
  return take_sign(word, 'P') && take_number(word, phase) && word.empty();
}

/// Actions as text: "F, B, U".
std::string letters() {
  std::string all;
  for (const OpRow& row : op_rows()) {
    if (!all.empty()) all += ", ";
    all += row.letter;
  }
  return all;
}

}  // namespace

std::string to_text(const BatchRound& visit) {
  return visit.round == 0 ? fmt::format("{}", visit.batch)
                          : fmt::format("{}.{}", visit.batch, visit.round);
}

BatchRound batch_round(const Action& action) {
  return {action.batch,
          is_exchange(action.op) ? row_of(action.kind).number : action.round};
}

std::string to_text(const Action& action) {
  std::string text = fmt::format("{}{}", row_of(action.op).letter,
                                 to_text(batch_round(action)));
  if (action.arrived > 0) text += fmt::format("<{}", action.arrived);
  for (const std::int64_t batch : action.dropped)
    text += fmt::format("-{}", batch);
  return text;
}

std::string to_text(const std::vector<Action>& actions) {
  std::string text;
  std::int64_t phase = 0;
  for (const Action& action : actions) {
    if (std::exchange(phase, action.phase) != action.phase)
      text += fmt::format("{}P{}", text.empty() ? "" : " ", action.phase);
    text += (text.empty() ? "" : " ") + to_text(action);
  }
  return text;
}

std::vector<Action> actions_from_text(std::string_view line,
                                      ExchangeKind of_window) {
  std::vector<Action> actions;
  std::int64_t phase = 0;
  std::istringstream words{std::string(line)};
  for (std::string word; words >> word;) {
    if (begins_phase(word, phase)) continue;
    Action action{.phase = phase};
    if (!parse(word, of_window, action))
      throw UserError(
          "'{}' is no action; an action is one of {} and a batch number, as in "
          "'F0 B0 U0'",
          word, letters());
    actions.push_back(action);
  }
  return actions;
}

}  // namespace sluice
