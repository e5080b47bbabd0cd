#include "lib/base/nearest.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a`
/// into `b` (Damerau-Levenshtein, optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(
      a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t replace =
          cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

/// Longer words are no slip of the finger, and the table above is quadratic.
constexpr std::size_t kLongestWord = 64;

}  // namespace

std::string perhaps(std::string_view word, std::span<const std::string> names) {
  if (word.size() > kLongestWord) return {};
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& name : names) {
    if (name.size() > kLongestWord) continue;
    const std::size_t longer = std::max(word.size(), name.size());
    const std::size_t distance = edit_distance(lower(word), lower(name));
    const bool near =
        distance <= std::max<std::size_t>(1, longer / 3) && distance < longer;
    if (near && (best == nullptr || distance < best_distance)) {
      best = &name;
      best_distance = distance;
    }
  }
  if (best == nullptr) return {};
  return fmt::format(" (did you mean '{}'?)", *best);
}

std::string joined(std::span<const std::string> names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace sluice
