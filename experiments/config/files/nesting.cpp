#include "experiments/config/files/nesting.h"

#include <algorithm>
#include <cstddef>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr int kMostLevels = kDeepestNesting / 2;

/// Walks over a text as the parser does, as far as that finds no error.
class Walk {
 public:
  Walk(std::string_view text, const std::string& name)
      : rest_(text), name_(name) {}

  void check() {
    while (!rest_.empty()) step();
  }

 private:
  void step() {
    const char c = rest_.front();
    if (c == '"' || c == '\'') return skip_string(c);
    if (c == '#') return skip(std::min(rest_.find('\n'), rest_.size()));
    if (c == '.') ++dots_;
    if (c == '[' || c == '{') ++brackets_;
    if (c == ']' || c == '}') --brackets_;
    if (c == '\n' || c == '=' || c == ',' || c == '{') dots_ = 0;
    if (c == '\n') ++line_;
    if (c == '=' || c == ',' || c == '[') ++values_;
    if (values_ > kMostValues)
      throw UserError(
          "{}:{}: here are more than {} keys and values, so it is no config",
          name_, line_, kMostValues);
    if (dots_ >= kMostLevels || brackets_ > kMostLevels)
      throw UserError("{}:{}: a key or value is nested more than {} deep",
                      name_, line_, kMostLevels);
    skip(1);
  }

  void skip(std::size_t characters) { rest_.remove_prefix(characters); }

  /// Up to its closing quotes, one or three; or to the end where there are
  /// none, which the parser refuses.
  void skip_string(char quote) {
    const std::string three(3, quote);
    const std::string closing =
        rest_.starts_with(three) ? three : std::string(1, quote);
    skip(closing.size());
    while (!rest_.empty() && !rest_.starts_with(closing)) {
      const bool escapes = rest_.front() == '\\' && quote == '"';
      if (rest_.front() == '\n') ++line_;
      skip(std::min<std::size_t>(escapes ? 2 : 1, rest_.size()));
    }
    skip(std::min(closing.size(), rest_.size()));
    // A string of three quotes may end with five.
    while (closing.size() == 3 && rest_.starts_with(quote)) skip(1);
  }

  std::string_view rest_;
  const std::string& name_;
  int line_ = 1;
  int dots_ = 0;
  int brackets_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

void check_toml_nesting(std::string_view text, const std::string& name) {
  Walk(text, name).check();
}

}  // namespace sluice
