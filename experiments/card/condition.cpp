#include "experiments/card/condition.h"

#include <charconv>
#include <optional>
#include <sstream>
#include <vector>

#include "lib/base/error.h"

namespace sluice {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::optional<double> number_of(const std::string& word) {
  double number = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

/// RUN <|> NUMBER, RUN <|> RUN, or RUN <|> RUN +|- NUMBER.
std::optional<Condition> parsed(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  if (words.size() != 3 && words.size() != 5) return std::nullopt;
  if (words[1] != "<" && words[1] != ">") return std::nullopt;
  Condition condition{
      .text = std::string(text), .left = words[0], .is_less = words[1] == "<"};
  const std::optional<double> number = number_of(words.back());
  if (words.size() == 3) {
    if (number)
      condition.offset = *number;
    else
      condition.right = words[2];
    return condition;
  }
  if (!number || (words[3] != "+" && words[3] != "-")) return std::nullopt;
  condition.right = words[2];
  condition.offset = words[3] == "-" ? -*number : *number;
  return condition;
}

}  // namespace

bool Condition::holds(double left_figure, double right_figure) const {
  const double limit = (right.empty() ? 0 : right_figure) + offset;
  return is_less ? left_figure < limit : left_figure > limit;
}

Condition condition_of(std::string_view text) {
  if (std::optional<Condition> condition = parsed(text)) return *condition;
  throw UserError(
      "'{}' is no condition; write it as 'RUN > RUN', 'RUN < RUN - 3' or "
      "'RUN < 2.5', with spaces between",
      text);
}

}  // namespace sluice
