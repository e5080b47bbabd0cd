#include "experiments/report/study/study.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "experiments/report/study/labels.h"
#include "experiments/report/study/methods.h"
#include "experiments/report/study/run_search.h"
#include "experiments/report/study/sweep_file.h"

namespace sluice::report {
namespace {

namespace fs = std::filesystem;

/// Puts runs that differ in their seed only into cells.
std::vector<StudyCell> cells_of(std::vector<RunRecord> runs) {
  std::vector<StudyCell> cells;
  std::vector<ConfigNode> numbers;
  for (RunRecord& run : runs) {
    const ConfigNode own = numbers_of_cell(*run.config);
    const auto at = std::find(numbers.begin(), numbers.end(), own);
    const auto index = static_cast<std::size_t>(at - numbers.begin());
    if (at == numbers.end()) {
      numbers.push_back(own);
      cells.emplace_back();
    }
    cells[index].runs.push_back(std::move(run));
  }
  for (StudyCell& cell : cells) {
    // A run that is done comes before others of its seed.
    std::stable_sort(cell.runs.begin(), cell.runs.end(),
                     [](const RunRecord& a, const RunRecord& b) {
                       return std::pair(a.seed, !a.is_done()) <
                              std::pair(b.seed, !b.is_done());
                     });
    cell.method = method_of(cell);
  }
  return cells;
}

/// Drops runs that repeat a seed. Returns their number.
int drop_repeats(StudyCell& cell) {
  const auto end = std::unique(
      cell.runs.begin(), cell.runs.end(),
      [](const RunRecord& a, const RunRecord& b) { return a.seed == b.seed; });
  const auto repeats = static_cast<int>(cell.runs.end() - end);
  cell.runs.erase(end, cell.runs.end());
  return repeats;
}

Study study_of_runs(std::vector<RunRecord> runs) {
  Study study{.title = "Sluice runs", .cells = cells_of(std::move(runs))};
  for (StudyCell& cell : study.cells) study.repeats += drop_repeats(cell);
  label_cells(study);
  return study;
}

/// Into one report: the axes of all, and labels that say whose they are.
Study joined(std::vector<Study> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Study whole;
  for (const Study& part : parts) {
    whole.repeats += part.repeats;
    whole.title += (whole.title.empty() ? "" : " + ") + part.title;
    for (const std::string& axis : part.axes)
      if (std::find(whole.axes.begin(), whole.axes.end(), axis) ==
          whole.axes.end())
        whole.axes.push_back(axis);
  }
  int number = 0;
  for (Study& part : parts) {
    ++number;
    for (StudyCell& cell : part.cells) {
      std::vector<std::string> values(whole.axes.size());
      for (std::size_t i = 0; i < part.axes.size(); ++i)
        values[static_cast<std::size_t>(
            std::find(whole.axes.begin(), whole.axes.end(), part.axes[i]) -
            whole.axes.begin())] = cell.values[i];
      cell.values = std::move(values);
      cell.id = fmt::format("{}-{}", number, cell.id);
      cell.label = fmt::format("{}: {}", part.title, cell.label);
      whole.cells.push_back(std::move(cell));
    }
  }
  return whole;
}

/// A run from its start to its last record, in seconds since 1970.
struct Span {
  RunRecord* run = nullptr;
  double begin = 0;
  double end = 0;
};

void mark_shared_machines(Study& study) {
  std::map<std::string, std::vector<Span>> by_host;
  for (StudyCell& cell : study.cells)
    for (RunRecord& run : cell.runs)
      if (run.summary && run.summary->time && !run.host.empty() &&
          run.started > 0 && !run.was_continued)
        by_host[run.host].push_back(
            {&run, run.started, run.started + *run.summary->time});
  for (auto& [host, spans] : by_host) {
    std::sort(spans.begin(), spans.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
    // Compare with the last to end among the runs that began before.
    const Span* last = nullptr;
    for (const Span& span : spans) {
      if (last != nullptr && span.begin < last->end)
        span.run->shared_machine = last->run->shared_machine = true;
      if (last == nullptr || span.end > last->end) last = &span;
    }
  }
}

}  // namespace

const ConfigNode* StudyCell::config() const {
  for (const RunRecord& run : runs)
    if (run.config) return &*run.config;
  return nullptr;
}

int StudyCell::count(RunRecord::State state) const {
  return static_cast<int>(
      std::count_if(runs.begin(), runs.end(),
                    [&](const RunRecord& run) { return run.state == state; }));
}

std::size_t StudyCell::count_of_blocks() const {
  const ConfigNode* found = config();
  const ConfigNode* blocks = found == nullptr ? nullptr : found->find("blocks");
  const auto* ranges = blocks == nullptr
                           ? nullptr
                           : std::get_if<ConfigNode::Array>(&blocks->value);
  return ranges == nullptr ? 0 : ranges->size();
}

int StudyCell::stopped_early() const {
  return static_cast<int>(std::count_if(
      runs.begin(), runs.end(),
      [](const RunRecord& run) { return run.is_done() && run.early_stop; }));
}

bool StudyCell::shared_machine() const {
  return std::any_of(runs.begin(), runs.end(), [](const RunRecord& run) {
    return run.is_done() && run.shared_machine;
  });
}

std::string StudyCell::mixed_makers() const {
  std::vector<Maker> makers;
  for (const RunRecord& run : runs)
    if (run.is_done())
      makers.insert(makers.end(), run.makers.begin(), run.makers.end());
  return mixed(makers);
}

std::vector<const RunRecord*> StudyCell::runs_to_draw() const {
  const bool any_done = count(RunRecord::State::done) > 0;
  std::vector<const RunRecord*> chosen;
  for (const RunRecord& run : runs)
    if (any_done ? run.is_done() : run.config.has_value())
      chosen.push_back(&run);
  return chosen;
}

Study read_study(const std::vector<std::string>& folders) {
  std::vector<Study> parts;
  std::vector<RunRecord> loose;
  std::set<fs::path> seen;
  const auto is_new = [&](const std::string& folder) {
    return seen.insert(fs::canonical(folder)).second;
  };
  for (const std::string& folder : folders) {
    const FoundRuns found = find_runs(folder);
    for (const std::string& sweep : found.sweeps)
      if (is_new(sweep)) parts.push_back(read_sweep(sweep));
    for (const std::string& run : found.runs)
      if (is_new(run)) loose.push_back(read_run(run));
  }
  if (!loose.empty()) parts.push_back(study_of_runs(std::move(loose)));
  Study study = joined(std::move(parts));
  mark_shared_machines(study);
  return study;
}

}  // namespace sluice::report
