// `sluice data fetch`, apart from the other commands: of all that is here only
// the program `sluice` downloads anything, and is linked with what that takes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "experiments/data/fetch/fetch.h"
#include "experiments/program/data_commands.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"

namespace sluice {
namespace {

std::vector<std::string> names_of_sets() {
  std::vector<std::string> names;
  for (const PublishedSet& set : published_sets()) names.emplace_back(set.name);
  return names;
}

const PublishedSet& set_of(const std::string& name) {
  const auto sets = published_sets();
  const auto set = std::find_if(sets.begin(), sets.end(), [&](const auto& row) {
    return row.name == name;
  });
  if (set == sets.end())
    throw UserError("no published data set '{}'{}; there are: {}", name,
                    perhaps(name, names_of_sets()), fetchable_sets());
  return *set;
}

/// How a download goes: on a terminal one line that is written over, elsewhere
/// a line every few seconds.
class DownloadDisplay {
 public:
  void say(const std::string& line) {
    fmt::print("{}{}\n", is_terminal_ ? "\r\033[K" : "", line);
    std::fflush(stdout);
    line_is_open_ = false;
  }

  void progress(const std::string& file, std::int64_t here, std::int64_t all) {
    const auto now = Clock::now();
    if (file != file_) {
      file_ = file;
      began_ = shown_ = now;
      before_ = here;
    }
    const double period = is_terminal_ ? 0.1 : 10;  // s
    if (seconds(now - shown_) < period) return;
    shown_ = now;
    const double rate = static_cast<double>(here - before_) /
                        std::max(1e-9, seconds(now - began_));
    fmt::print("{}{}  {:.1f} of {:.1f} MB, {:.1f} MB/s{}",
               is_terminal_ ? "\r\033[K" : "", file,
               static_cast<double>(here) / 1e6, static_cast<double>(all) / 1e6,
               rate / 1e6, is_terminal_ ? "" : "\n");
    std::fflush(stdout);
    line_is_open_ = is_terminal_;
  }

  /// Ends the line of the progress, before an error is printed.
  void leave() {
    if (line_is_open_) fmt::print("\n");
    std::fflush(stdout);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
  }

  bool is_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  bool line_is_open_ = false;
  std::string file_;
  std::int64_t before_ = 0;
  Clock::time_point began_;
  Clock::time_point shown_;
};

}  // namespace

std::string fetchable_sets() {
  return joined(names_of_sets());
}

std::string fetched_sets(const std::string& root) {
  std::string lines;
  for (const PublishedSet& set : published_sets()) {
    const bool is_here = !root.empty() && is_fetched(set, root);
    const std::string command =
        fmt::format("sluice data fetch {} --root {}", set.name,
                    root.empty() ? "DIR" : root);
    lines += fmt::format("  {:<18}{}\n", set.name,
                         is_here ? "here" : "missing: " + command);
  }
  return lines + "  drawn_digits      here: drawn by the program\n";
}

void data_fetch_command(const DataFetchArguments& arguments) {
  if (arguments.root.empty())
    throw UserError(
        "say where to: --root DIR, or the environment variable SLUICE_DATA");
  if (!arguments.url.empty() && arguments.names.size() != 1)
    throw UserError("--from is the folder of one data set; {} are named",
                    arguments.names.size());
  std::vector<const PublishedSet*> sets;
  for (const std::string& name : arguments.names) sets.push_back(&set_of(name));
  DownloadDisplay display;
  FetchOptions options = {.root = arguments.root, .url = arguments.url};
  options.say = [&](const std::string& line) { display.say(line); };
  options.progress = [&](const std::string& file, std::int64_t here,
                         std::int64_t all) {
    display.progress(file, here, all);
  };
  try {
    for (const PublishedSet* set : sets) fetch(*set, options);
  } catch (...) {
    display.leave();
    throw;
  }
}

}  // namespace sluice
