#include "experiments/card/run_card.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/left_out.h"
#include "experiments/config/numbers.h"
#include "experiments/runs/run.h"
#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/folder_lock.h"
#include "lib/base/nearest.h"

namespace sluice {
namespace {

ConfigNode with_overrides(ConfigNode config,
                          const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) apply_override(config, text);
  return config;
}

class Runner {
 public:
  Runner(const CardOptions& options, Card card)
      : options_(options), report_{.card = std::move(card)} {
    report_.command = options.command;
    for (const CardRun& run : report_.card.runs)
      report_.rows.push_back({.run = run, .is_trial = changes_numbers(run)});
    folder_ = options.folder;
    if (folder_.empty())
      folder_ = "runs/cards/" + report_.card.name +
                (report_.is_trial() ? "-trial" : "");
    check_selection();
    for (CardRow& row : report_.rows) look_at(row);
    check_folders();
  }

  void run(StopSignals& signals) {
    make_folder();
    const FolderLock lock(folder_);
    for (CardRow& row : report_.rows) look_at(row);  // nobody changes it now
    check_folders();
    for (CardRow& row : report_.rows) {
      if (!is_selected(row.run)) continue;
      if (!do_run(row, signals)) break;
    }
    write();
  }

  CardReport report() && { return std::move(report_); }

 private:
  std::string folder_of(const CardRun& run) const {
    return folder_ + "/" + run.name;
  }

  /// One at a time: its data set is kept in memory with it.
  Experiment experiment_of(const CardRun& run) const {
    return read_experiment(with_overrides(run.config, options_.overrides),
                           options_.data_root);
  }

  bool changes_numbers(const CardRun& run) const {
    if (options_.overrides.empty()) return false;
    const Experiment plain = read_experiment(run.config, options_.data_root);
    return numbers_of(plain.resolved) !=
           numbers_of(experiment_of(run).resolved);
  }

  bool is_selected(const CardRun& run) const {
    const std::vector<std::string>& only = options_.only;
    return only.empty() ||
           std::find(only.begin(), only.end(), run.name) != only.end();
  }

  void check_selection() const {
    std::vector<std::string> names;
    for (const CardRun& run : report_.card.runs) names.push_back(run.name);
    for (const std::string& name : options_.only)
      if (report_.card.find(name) == nullptr)
        throw UserError("--only {}: the card has no such run{}; there are: {}",
                        name, perhaps(name, names), joined(names));
  }

  void look_at(CardRow& row) const {
    row.state = state_of(folder_of(row.run), experiment_of(row.run),
                         options_.data_root);
  }

  void check_folders() const {
    if (options_.overwrite) return;
    for (const CardRow& row : report_.rows)
      if (is_selected(row.run) && row.state.kind == RunState::Kind::other)
        throw UserError(
            "{} holds a run with another config ({}); give another --dir, or "
            "--overwrite to remove that run",
            folder_of(row.run), row.state.difference);
  }

  void make_folder() const {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error)
      throw UserError("{}: can't be made: {}", folder_, error.message());
  }

  /// False when it was stopped.
  bool do_run(CardRow& row, StopSignals& signals) {
    if (row.state.kind == RunState::Kind::done && !options_.overwrite) {
      fmt::print("{}: done before, in {}\n", row.run.name, folder_of(row.run));
      return true;
    }
    const bool resume =
        row.state.kind == RunState::Kind::unfinished && !options_.overwrite;
    fmt::print("{}: {} {}\n", row.run.name, resume ? "continues" : "starts",
               folder_of(row.run));
    const Experiment experiment = experiment_of(row.run);
    tell_left_out(experiment.left_out);
    const RunResult result =
        sluice::run(experiment,
                    {.folder = folder_of(row.run),
                     .overwrite = options_.overwrite ||
                                  row.state.kind == RunState::Kind::begun,
                     .resume = resume,
                     .command = options_.command,
                     .program = options_.program},
                    signals);
    look_at(row);
    return result.complete;
  }

  void write() const {
    const auto save = [&](const char* name, const std::string& text) {
      write_file_atomically(folder_ + "/" + name,
                            [&](std::ostream& file) { file << text; });
    };
    save("report.md", markdown_of(report_));
    save("report.json", json_of(report_).dump(2) + "\n");
  }

  const CardOptions& options_;
  CardReport report_;
  std::string folder_;
};

}  // namespace

CardReport run_card(const CardOptions& options, StopSignals& signals) {
  Runner runner(options, read_card(options.path));
  runner.run(signals);
  return std::move(runner).report();
}

}  // namespace sluice
