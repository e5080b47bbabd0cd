#include "experiments/sweep/sweep_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/sweep/mixed_runs.h"
#include "lib/metrics/accuracy_text.h"

namespace sluice::sweep {
namespace {

using Kind = RunState::Kind;

std::size_t count(const SweepRuns& runs,
                  const std::function<bool(const SweepRun&)>& is) {
  return static_cast<std::size_t>(
      std::count_if(runs.all().begin(), runs.all().end(), is));
}

/// "1 cell", "2 cells"
std::string counted(std::size_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

/// Values of an axis, each once, in the order of the cells.
std::string texts_of_axis(const SweepPlan& plan, const std::string& key) {
  std::vector<std::string> texts;
  for (const PlannedCell& planned : plan.cells) {
    const Cell& cell = planned.cell;
    if (cell.texts.size() != cell.values.size()) continue;  // a label
    for (std::size_t i = 0; i < cell.values.size(); ++i)
      if (cell.values[i].first == key &&
          std::find(texts.begin(), texts.end(), cell.texts[i]) == texts.end())
        texts.push_back(cell.texts[i]);
  }
  constexpr std::size_t kMost = 12;
  const std::size_t more = texts.size() > kMost ? texts.size() - kMost : 0;
  texts.resize(texts.size() - more);
  return fmt::format("{}{}", fmt::join(texts, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string state_text(const SweepRun& run) {
  if (!run.failure.empty()) return "failed";
  if (run.is_pruned) return "stopped by halving";
  switch (run.state.kind) {
    case Kind::done:
      if (run.is_row) return "done elsewhere";
      return run.other_build().empty() ? "done" : "done by another build";
    case Kind::unfinished:
      return "to continue";
    case Kind::begun:
      return "to begin anew";
    case Kind::other:
      return run.state.is_other_data ? "other data" : "another config";
    case Kind::absent:
      break;
  }
  return "to do";
}

std::string builds_text(const SweepRuns& runs) {
  std::set<std::string> builds;
  for (const SweepRun& run : runs.all())
    if (run.state.kind == Kind::done && !run.other_build().empty())
      builds.insert(run.other_build());
  return fmt::format("{}", fmt::join(builds, ", "));
}

std::string note_on_rows(const SweepRuns& runs) {
  const std::size_t rows =
      count(runs, [](const SweepRun& run) { return run.is_row; });
  if (runs.rows().size() == 0) return "";
  return fmt::format(
      "{} of them elsewhere, by the rows in --done, which has {} done{}\n",
      rows, runs.rows().size(),
      rows > 0 ? "" : ": were they made with another config?");
}

std::string notes_on_builds(const SweepRuns& runs, bool again) {
  std::string text;
  const std::size_t done = count(runs, [](const SweepRun& run) {
    return run.is_done() && !run.other_build().empty();
  });
  if (done > 0)
    text += fmt::format(
        "{} of them made by another build ({}): {}\n", done, builds_text(runs),
        again ? "they begin anew" : "they are kept; --again does them anew");
  const std::size_t continued = count(runs, [](const SweepRun& run) {
    return run.state.kind == Kind::unfinished && !run.other_build().empty();
  });
  if (continued > 0)
    text += fmt::format(
        "{} of those to continue began with another build; this one goes on\n",
        continued);
  return text;
}

std::string mean_text(const std::vector<double>& values, double scale,
                      int digits) {
  double mean = 0;
  for (const double value : values)
    mean += scale * value / static_cast<double>(values.size());
  if (values.size() < 2) return fmt::format("{:.{}f}", mean, digits);
  double squares = 0;
  for (const double value : values)
    squares += (scale * value - mean) * (scale * value - mean);
  const double deviation =
      std::sqrt(squares / static_cast<double>(values.size() - 1));
  return fmt::format("{:.{}f} ± {:.{}f}", mean, digits, deviation, digits);
}

}  // namespace

std::string plan_text(const SweepRuns& runs, const SweepOptions& options,
                      const std::string& folder) {
  const SweepPlan& plan = runs.plan();
  const auto& seeds = plan.cells.front().seeds;
  std::string text = fmt::format("Sweep {}: {} x {} = {}, in {}\n", plan.name,
                                 counted(plan.cells.size(), "cell"),
                                 counted(seeds.size(), "seed"),
                                 counted(runs.all().size(), "run"), folder);
  for (const std::string& key : plan.axes)
    text += fmt::format("  {}: {}\n", key, texts_of_axis(plan, key));
  text += fmt::format("  seed: {}\n", fmt::join(seeds, ", "));
  if (const auto& halving = runs.sweep().halving)
    text += fmt::format(
        "  halving: after epochs {}, one cell in {} goes on by its {}\n",
        fmt::join(halving->rungs, ", "), halving->keep, halving->measure);
  const std::size_t failed =
      count(runs, [](const SweepRun& run) { return !run.failure.empty(); });
  text += fmt::format(
      "{} done, {} to continue, {} failed before{}; {}\n",
      count(runs, [](const SweepRun& run) { return run.is_done(); }),
      count(runs,
            [](const SweepRun& run) {
              return run.state.kind == Kind::unfinished &&
                     run.failure.empty() && !run.is_pruned;
            }),
      failed,
      failed == 0     ? ""
      : options.retry ? " and are tried again"
                      : " and are left so: --on-failure retry tries them again",
      options.jobs > 0 ? fmt::format("{} at a time", options.jobs)
                       : "as many at a time as Slurm has room for");
  return text + note_on_rows(runs) + notes_on_builds(runs, options.again);
}

std::string cells_text(const SweepRuns& runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.plan().cells.size(); ++i) {
    std::vector<std::string> states;
    for (const SweepRun& run : runs.all())
      if (run.cell == i)
        states.push_back(fmt::format("seed {} {}", run.seed, state_text(run)));
    const PlannedCell& cell = runs.plan().cells[i];
    text += fmt::format("  {}  {}: {}\n", cell.id, cell.cell.label,
                        fmt::join(states, ", "));
  }
  return text;
}

std::string figures_text(const records::Evaluation& evaluation) {
  if (std::isnan(evaluation.accuracy))  // the targets are numbers
    return fmt::format("loss {:.4f}{}", evaluation.loss,
                       with_r2(evaluation.r2));
  return fmt::format("accuracy {:.2f} %, loss {:.4f}",
                     100 * evaluation.accuracy, evaluation.loss);
}

std::string results_text(const SweepRuns& runs) {
  std::size_t width = 4;
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < runs.plan().cells.size(); ++i) {
    labels.push_back(runs.plan().cells[i].cell.label +
                     (mixed_in(runs, i).empty() ? "" : " *"));
    width = std::max(width, labels.back().size());
  }
  std::string text = fmt::format("{:<{}}  {:>3}  {:>14}  {:>17}\n", "cell",
                                 width, "n", "accuracy %", "loss");
  for (std::size_t i = 0; i < runs.plan().cells.size(); ++i) {
    std::vector<double> accuracies;
    std::vector<double> losses;
    for (const SweepRun& run : runs.all()) {
      if (run.cell != i || !run.is_done()) continue;
      losses.push_back(run.state.evaluation.loss);
      // Runs whose targets are numbers have no accuracy.
      if (!std::isnan(run.state.evaluation.accuracy))
        accuracies.push_back(run.state.evaluation.accuracy);
    }
    text += fmt::format(
        "{:<{}}  {:>3}  {:>14}  {:>17}\n", labels[i], width, losses.size(),
        accuracies.empty() ? "-" : mean_text(accuracies, 100, 2),
        losses.empty() ? "-" : mean_text(losses, 1, 4));
  }
  return text;
}

}  // namespace sluice::sweep
