#include "experiments/sweep/run_jobs.h"

#include <algorithm>
#include <cstdio>
#include <ostream>

#include <fmt/format.h>

#include "experiments/runs/checkpoints/run_state.h"
#include "experiments/sweep/halving.h"
#include "experiments/sweep/sweep_text.h"
#include "lib/base/files/file.h"
#include "lib/base/files/user_text.h"
#include "lib/schedules/orders/free_running.h"

namespace sluice::sweep {
namespace {

std::string text_of(const RunJob& job, const RunEnd& end) {
  const SweepRun& run = *job.run;
  switch (end.kind) {
    case RunEnd::Kind::done:
      return fmt::format("{}, {:.1f} s", figures_text(run.state.evaluation),
                         end.seconds);
    case RunEnd::Kind::at_rung:
      return fmt::format(
          "{} after turn {}",
          figures_text(evaluation_until(run.folder, job.pause_turn)
                           .value_or(records::Evaluation())),
          job.pause_turn);
    case RunEnd::Kind::stopped:
      return run.state.kind == RunState::Kind::unfinished
                 ? "stopped, with a checkpoint"
                 : "stopped, and begins anew";
    case RunEnd::Kind::again:
      return fmt::format("failed, and is tried again: {}", end.reason);
    case RunEnd::Kind::failed:
      break;
  }
  return fmt::format("failed: {}", end.reason);
}

}  // namespace

std::optional<RunJob> job_of(SweepRun& run, double rung, const SweepRuns& runs,
                             const SweepOptions& options) {
  const bool has_failed = !run.failure.empty();
  const bool is_anew =
      options.again &&
      (run.state.kind == RunState::Kind::other || !run.other_build().empty());
  if (!is_anew && (run.is_done() || (has_failed && !options.retry))) return {};
  std::int64_t turn = 0;
  if (rung > 0) turn = turn_of_rung(runs.experiment_of(run), rung);
  if (!is_anew && turn > 0 && has_reached(run, turn)) return {};
  return RunJob{&run, turn, options.retry && !has_failed};
}

bool is_continued(const SweepRun& run, const Experiment& experiment,
                  const SweepOptions& options) {
  const bool is_anew = options.again && !run.other_build().empty();
  return options.continues && run.state.kind == RunState::Kind::unfinished &&
         !is_anew && can_be_continued(experiment.plans.front());
}

std::vector<RunJob> jobs_of(SweepRuns& runs,
                            const std::vector<std::size_t>& cells, double rung,
                            const SweepOptions& options) {
  std::vector<RunJob> jobs;
  for (SweepRun& run : runs.all()) {
    if (std::find(cells.begin(), cells.end(), run.cell) == cells.end())
      continue;
    if (const auto job = job_of(run, rung, runs, options)) jobs.push_back(*job);
  }
  return jobs;
}

void mark_failed(SweepRun& run, const std::string& reason) {
  run.failure = reason;
  write_file_atomically(failure_file(run.folder),
                        [&](std::ostream& file) { file << reason << '\n'; });
}

void print_end_of(const RunJob& job, const RunEnd& end, const SweepRuns& runs) {
  print_line(*job.run, text_of(job, end), runs);
}

void print_line(const SweepRun& run, const std::string& text,
                const SweepRuns& runs) {
  const auto& all = runs.all();
  const auto done = std::count_if(all.begin(), all.end(),
                                  [](const auto& r) { return r.is_done(); });
  const auto given_up = std::count_if(
      all.begin(), all.end(),
      [](const auto& r) { return !r.failure.empty() || r.is_pruned; });
  sluice::put("[{}/{}] {}: {}; {} left\n", done, all.size(), runs.name_of(run),
              text, std::ssize(all) - done - given_up);
}

}  // namespace sluice::sweep
