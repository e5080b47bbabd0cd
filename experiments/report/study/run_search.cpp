#include "experiments/report/study/run_search.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "experiments/report/study/run_record.h"
#include "lib/base/error.h"

namespace sluice::report {
namespace {

namespace fs = std::filesystem;

/// Levels of folders in folders that are searched for runs.
constexpr int kDeepestFolder = 4;

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// The digits that `text` begins with, without leading zeros.
std::string_view number_in(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  std::string_view digits(text.begin(), end);
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

std::size_t digits_in(std::string_view text) {
  return static_cast<std::size_t>(
      std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

/// Numbers in names are compared as numbers.
bool comes_before(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view left = number_in(a);
      const std::string_view right = number_in(b);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
      a.remove_prefix(digits_in(a));
      b.remove_prefix(digits_in(b));
      continue;
    }
    if (a.front() != b.front()) return a.front() < b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  if (a.empty() && b.empty()) return whole_a < whole_b;
  return a.empty();
}

/// Paths of the folders in a folder.
std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->is_directory(error)) paths.push_back(at->path().string());
  if (error) throw UserError("{}: can't be read: {}", folder, error.message());
  std::sort(paths.begin(), paths.end(), comes_before);
  return paths;
}

void search(const std::string& folder, int depth, FoundRuns& found) {
  if (fs::exists(folder + "/sweep.json")) {
    found.sweeps.push_back(folder);
  } else if (is_run_folder(folder)) {
    found.runs.push_back(folder);
  } else if (depth < kDeepestFolder) {
    for (const std::string& below : folders_in(folder))
      search(below, depth + 1, found);
  }
}

}  // namespace

FoundRuns find_runs(const std::string& folder) {
  if (!fs::is_directory(folder))
    throw UserError("{}: is no folder; give that of a run or of a sweep",
                    folder);
  FoundRuns found;
  search(folder, 0, found);
  if (found.sweeps.empty() && found.runs.empty())
    throw UserError(
        "{}: has no runs: give the folder of a run (it has a config.toml), of "
        "a sweep (a sweep.json), or one of those",
        folder);
  return found;
}

}  // namespace sluice::report
