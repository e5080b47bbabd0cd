#include "experiments/card/run_card.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/left_out.h"
#include "experiments/config/numbers.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/config/reading/start_checks.h"
#include "experiments/runs/run.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/folder_lock.h"
#include "lib/base/files/user_text.h"

namespace sluice {
namespace {

class Runner {
 public:
  explicit Runner(const CardOptions& options) : options_(options) {
    report_ = {.card = read_card(options.path), .command = options.command};
    for (const CardRun& run : report_.card.runs)
      report_.rows.push_back({.run = run, .is_trial = changes_numbers(run)});
    folder_ = options.folder;
    if (folder_.empty())
      folder_ = "runs/cards/" + report_.card.name +
                (report_.is_trial() ? "-trial" : "");
    for (const std::string& name : options.only) report_.card.find(name);
    look_at_all();
  }

  CardReport run(StopSignals& signals) && {
    make_folder();
    const FolderLock lock(folder_);
    look_at_all();  // again, now under the folder's lock
    for (CardRow& row : report_.rows)
      if (is_selected(row.run) && !do_run(row, signals)) break;
    write("report.md", markdown_of(report_));
    write("report.json", json_of(report_).dump(2) + "\n");
    return std::move(report_);
  }

 private:
  std::string folder_of(const CardRun& run) const {
    return folder_ + "/" + run.name;
  }

  /// One at a time: its data set is kept in memory with it.
  Experiment experiment_of(const CardRun& run) const {
    ConfigNode config = run.config;
    for (const std::string& text : options_.overrides)
      apply_override(config, text);
    return read_experiment(config, options_.data_root);
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

  void look_at(CardRow& row, const Experiment& experiment) const {
    row.state = state_of(folder_of(row.run), experiment, options_.data_root);
  }

  /// Throws UserError for another run that stands where one would be done.
  void look_at_all() {
    for (CardRow& row : report_.rows) {
      look_at(row, experiment_of(row.run));
      if (row.state.kind == RunState::Kind::other && is_selected(row.run) &&
          !options_.overwrite)
        throw UserError(
            "{} holds a run with {} ({}); give another --dir, or --overwrite "
            "to remove that run",
            folder_of(row.run),
            row.state.is_other_data ? "other data" : "another config",
            row.state.difference);
    }
  }

  void make_folder() const {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error)
      throw UserError("{}: can't be made: {}", folder_, error.message());
  }

  /// Does a run of the card. Returns false when it was stopped.
  bool do_run(CardRow& row, StopSignals& signals) {
    using Kind = RunState::Kind;
    const std::string folder = folder_of(row.run);
    const Kind kind = options_.overwrite ? Kind::other : row.state.kind;
    if (kind == Kind::done) {
      put("{}: done before, in {}\n", row.run.name, folder);
      return true;
    }
    const bool resume = kind == Kind::unfinished;
    put("{}: {} {}\n", row.run.name, resume ? "continues" : "starts", folder);
    const Experiment experiment = experiment_of(row.run);
    tell_left_out(experiment.left_out);
    tell_left_out(resume ? told_on_resume(experiment)
                         : check_start(experiment));
    const RunResult result =
        sluice::run(experiment,
                    {.folder = folder,
                     .overwrite = options_.overwrite || kind == Kind::begun,
                     .resume = resume,
                     .command = options_.command,
                     .program = options_.program},
                    signals);
    look_at(row, experiment);
    return result.complete;
  }

  void write(const char* name, const std::string& text) const {
    write_file_atomically(folder_ + "/" + name,
                          [&](std::ostream& file) { file << text; });
  }

  const CardOptions& options_;
  CardReport report_;
  std::string folder_;
};

}  // namespace

CardReport run_card(const CardOptions& options, StopSignals& signals) {
  return Runner(options).run(signals);
}

}  // namespace sluice
