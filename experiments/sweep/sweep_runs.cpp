#include "experiments/sweep/sweep_runs.h"

#include <filesystem>
#include <fstream>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/left_out.h"
#include "experiments/config/reading/start_checks.h"
#include "experiments/runs/folder/provenance.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/seats/devices.h"
#include "experiments/sweep/halving.h"
#include "lib/base/error.h"

namespace sluice::sweep {
namespace {

/// Text of a run's failure; empty when there is none.
std::string read_failure(const std::string& run_folder) {
  std::ifstream file(failure_file(run_folder));
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string SweepRun::other_build() const {
  if (is_row) return "";
  const std::string build = state.provenance.value("build", "");
  return build == this_build() ? "" : build;
}

std::string failure_file(const std::string& run_folder) {
  return run_folder + ".failed";
}

SweepRuns::SweepRuns(const Sweep& sweep, SweepPlan plan,
                     const std::string& folder, ReadRun read,
                     bool runs_elsewhere, DoneRows rows)
    : sweep_(sweep),
      plan_(std::move(plan)),
      folder_(folder),
      read_(std::move(read)),
      runs_elsewhere_(runs_elsewhere),
      rows_(std::move(rows)) {
  for (std::size_t i = 0; i < plan_.cells.size(); ++i)
    for (const std::int64_t seed : plan_.cells[i].seeds)
      runs_.push_back(run_in(i, seed));
  for (SweepRun& run : runs_)
    check_and_look(run, run.seed == plan_.cells[run.cell].seeds.front());
}

SweepRun SweepRuns::run_in(std::size_t cell, std::int64_t seed) const {
  return {.cell = cell,
          .seed = seed,
          .folder = fmt::format("{}/{}/seed-{}", folder_,
                                plan_.cells[cell].folder, seed)};
}

SweepRun& SweepRuns::put(const std::vector<CellValue>& values,
                         std::int64_t seed) {
  SweepPlan before = plan_;
  const std::size_t cell = put_cell(plan_, values);
  for (SweepRun& run : runs_)
    if (run.cell == cell && run.seed == seed) return run;
  SweepRun run = run_in(cell, seed);
  try {
    check_and_look(run, true);
  } catch (...) {
    plan_ = std::move(before);
    throw;
  }
  plan_.cells[cell].seeds.push_back(seed);
  return runs_.emplace_back(std::move(run));
}

const Cell& SweepRuns::cell_of(const SweepRun& run) const {
  return plan_.cells.at(run.cell).cell;
}

std::string SweepRuns::name_of(const SweepRun& run) const {
  return fmt::format("{}, seed {}", cell_of(run).label, run.seed);
}

Experiment SweepRuns::experiment_of(const SweepRun& run) const {
  return read_(config_of(sweep_.config, cell_of(run), run.seed));
}

bool SweepRuns::leaves_threads_open(const SweepRun& run) const {
  const ConfigNode config = config_of(sweep_.config, cell_of(run), run.seed);
  const ConfigNode* threads = config.find("threads");
  return threads == nullptr ||
         threads->value == ConfigNode::Value(std::int64_t{0});
}

void SweepRuns::tell_left_out(const SweepRun& run,
                              const Experiment& experiment) {
  std::vector<std::string> all = experiment.left_out;
  for (std::string& line : run.state.kind == RunState::Kind::absent
                               ? check_start(experiment)
                               : told_on_resume(experiment))
    all.push_back(std::move(line));
  std::vector<std::string> lines;
  for (const std::string& line : all)
    if (told_.insert(line).second)
      lines.push_back(fmt::format("cell {} ({}): {}", plan_.cells[run.cell].id,
                                  cell_of(run).label, line));
  sluice::tell_left_out(lines);
}

void SweepRuns::check_and_look(SweepRun& run, bool is_first_of_cell) {
  try {
    const Experiment experiment = experiment_of(run);
    look_at(run, experiment);
    if (is_first_of_cell) {
      tell_left_out(run, experiment);
      if (sweep_.halving)
        for (const double rung : sweep_.halving->rungs)
          turn_of_rung(experiment, rung);  // it can be compared there
      if (!runs_elsewhere_) check_devices(experiment);
      if (!experiment.initial_weights.empty())
        check_weights(experiment, experiment.initial_weights);
    }
  } catch (const UserError& error) {
    throw UserError("cell {} ({}): {}", plan_.cells[run.cell].id,
                    cell_of(run).label, error.what());
  }
}

void SweepRuns::look_for_row(SweepRun& run,
                             const Experiment& experiment) const {
  const records::Evaluation* evaluation = rows_.find(experiment);
  if (evaluation == nullptr) return;
  run.is_row = true;
  run.state.kind = RunState::Kind::done;
  run.state.evaluation = *evaluation;
}

void SweepRuns::look_at(SweepRun& run) const {
  look_at(run, experiment_of(run));
}

void SweepRuns::look_at(SweepRun& run, const Experiment& experiment) const {
  run.state = state_of(run.folder, experiment, read_);
  run.is_row = false;
  if (run.state.kind == RunState::Kind::absent) look_for_row(run, experiment);
  run.failure = run.is_done() ? "" : read_failure(run.folder);
  run.is_pruned =
      !run.is_done() && std::filesystem::exists(pruned_file(run.folder));
}

}  // namespace sluice::sweep
