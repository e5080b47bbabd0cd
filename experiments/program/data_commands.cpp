#include "experiments/program/data_commands.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>

#include <fmt/format.h>
#include <unistd.h>

#include "experiments/data/fetch.h"
#include "experiments/runs/assembly.h"
#include "experiments/runs/keyed_tensors.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/checkpoints/safetensors.h"

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

  /// Before an error is printed.
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

namespace {

KeyedKinds kinds_of(const DataOrderArguments& arguments) {
  KeyedKinds kinds;
  for (const std::string& name : arguments.with) {
    kinds.masks = kinds.masks || name == "masks";
    kinds.labels = kinds.labels || name == "labels";
    kinds.projections = kinds.projections || name == "projections";
  }
  if (arguments.turns == 0 && (kinds.masks || kinds.labels))
    throw UserError(
        "--with masks or labels wants --turns N: those of the first N batches "
        "are kept in memory until they are written");
  return kinds;
}

/// "2 masks, 2 labels, 0 projections"
std::string counted(const NamedTensors& tensors, const KeyedKinds& kinds) {
  std::string text;
  const auto count = [&](bool is_wanted, const std::string& kind) {
    if (!is_wanted) return;
    const auto number = std::count_if(
        tensors.begin(), tensors.end(),
        [&](const auto& named) { return named.first.starts_with(kind + "."); });
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, kind);
  };
  count(kinds.masks, "masks");
  count(kinds.labels, "labels");
  count(kinds.projections, "projections");
  return text;
}

void write_keyed(const Experiment& experiment,
                 const DataOrderArguments& arguments, const KeyedKinds& kinds,
                 std::int64_t turns) {
  if (arguments.with.empty()) return;
  const NamedTensors tensors = keyed_tensors(experiment, turns, kinds);
  write_safetensors(arguments.file, tensors);
  fmt::print(stderr, "{}: {}\n", arguments.file, counted(tensors, kinds));
}

}  // namespace

void data_order_command(const DataOrderArguments& arguments) {
  const KeyedKinds kinds = kinds_of(arguments);
  const Experiment experiment = experiment_of(arguments.config);
  if (experiment.assist.is_on())
    throw UserError(
        "data.assist.acceptance = {}: which samples are trained on follows "
        "from the losses of the run; set it to 0 for the order in which they "
        "come up",
        experiment.assist.acceptance);
  const auto source = training_source(experiment);
  // Each replica is dealt one in a turn.
  const std::int64_t turns =
      experiment.replicas.deals().before(experiment.length.turns);
  const std::int64_t end =
      arguments.turns > 0 ? std::min(arguments.turns, turns) : turns;
  fmt::memory_buffer line;
  for (std::int64_t t = 0; t < end; ++t) {
    line.clear();
    fmt::format_to(std::back_inserter(line), "{} {}", t, source->epoch(t));
    for (const std::int64_t position : source->positions(t))
      fmt::format_to(std::back_inserter(line), " {}", position);
    line.push_back('\n');
    std::fwrite(line.data(), 1, line.size(), stdout);
  }
  write_keyed(experiment, arguments, kinds, end);
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
