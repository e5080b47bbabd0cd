#include "experiments/sweep/ask_tell.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <list>
#include <optional>
#include <ostream>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/sweep/evaluation_tail.h"
#include "experiments/sweep/halving.h"
#include "experiments/sweep/line_input.h"
#include "experiments/sweep/request.h"
#include "experiments/sweep/slots.h"
#include "experiments/sweep/sweep_folder.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"

namespace sluice::sweep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kPeriodOfLooks{20};

/// A driver chooses by "accuracy" and "loss", so these are of the split that is
/// there to choose by.
Json figures_of(const records::Evaluation& evaluation) {
  // JSON has no NaN; it is written as null.
  Json figures = {{"turn", evaluation.turn},
                  {"epoch", evaluation.epoch},
                  {"split", choosing_split(evaluation)},
                  {"accuracy", Measure{"accuracy"}.in(evaluation)},
                  {"loss", Measure{"loss"}.in(evaluation)}};
  if (figures["split"] == "test") return figures;
  figures["test_accuracy"] = evaluation.accuracy;
  figures["test_loss"] = evaluation.loss;
  return figures;
}

/// A run that was proposed and isn't answered yet.
struct Trial {
  SweepRun* run = nullptr;
  /// Ids of the proposals that wait for it; none: it was pruned, and is being
  /// stopped.
  std::vector<Json> ids = {};
  bool is_wanted_again = false;  ///< proposed while it was being stopped
  EvaluationTail tail;
  std::vector<Json> evaluations = {};
};

/// Writes the lines to the driver.
class Answers {
 public:
  explicit Answers(std::FILE* stream) : stream_(stream) {}

  void write(const Json& line) {
    // The error of a damaged line may quote the line.
    const std::string text =
        line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (std::fwrite(text.data(), 1, text.size(), stream_) != text.size() ||
        std::fflush(stream_) != 0)
      is_lost_ = true;
  }
  /// Whether the reader has closed the pipe.
  bool is_lost() const { return is_lost_; }

 private:
  std::FILE* stream_;
  bool is_lost_ = false;
};

class Conversation {
 public:
  Conversation(SweepRuns& runs, const SweepOptions& options,
               const std::string& folder, const DriverStreams& streams)
      : runs_(runs),
        options_(options),
        folder_(folder),
        input_(streams.proposals),
        answers_(streams.answers),
        slots_(runs, options, [this](const RunJob& job, const RunEnd& end) {
          finish(job, end);
        }) {}

  SweepResult answer(const std::atomic<bool>& is_stopped) {
    const auto done =
        std::count_if(runs_.all().begin(), runs_.all().end(),
                      [](const SweepRun& run) { return run.is_done(); });
    answers_.write({{"event", "ready"},
                    {"folder", folder_},
                    {"jobs", options_.jobs},
                    {"done", done}});
    try {
      work(is_stopped);
    } catch (...) {  // a full disk, say: what runs shall save what it has
      slots_.stop_and_wait();
      throw;
    }
    for (const Trial& trial : trials_) end(trial, "stopped", {});
    return result_;
  }

 private:
  void work(const std::atomic<bool>& is_stopped) {
    for (;;) {
      if (is_stopped || answers_.is_lost()) {
        is_stopping_ = true;
        slots_.stop();
      }
      input_.wait(kPeriodOfLooks);
      while (const auto line = is_stopping_ ? std::nullopt : input_.next())
        take(*line);
      slots_.step();
      for (Trial& trial : trials_) follow(trial);
      if (slots_.is_idle() && (is_stopping_ || input_.is_over())) return;
    }
  }

  void take(const std::string& line) {
    ++line_;
    if (line.find_first_not_of(" \t\r") == std::string::npos) return;
    Json id = nullptr;
    try {
      Request request = request_of(line);
      id = request.id;
      if (request.kind == Request::Kind::prune) return prune(id);
      if (id.is_null()) id = request.id = line_;
      propose(request);
    } catch (const BadRequest& error) {
      refuse(error.id(), error.what());
    } catch (const UserError& error) {
      refuse(id, error.what());
    }
  }

  void refuse(const Json& id, const std::string& text) {
    Json line = {{"event", "error"}};
    if (!id.is_null()) line["id"] = id;
    line["line"] = line_;
    line["error"] = text;
    answers_.write(line);
  }

  void propose(const Request& request) {
    if (trial_of(request.id) != trials_.end())
      throw UserError("the proposal {} is not answered yet", request.id.dump());
    const std::size_t known = runs_.all().size();
    SweepRun& run =
        runs_.put(request.values, request.seed.value_or(default_seed()));
    if (runs_.all().size() > known) write_plan(folder_, runs_.plan());
    if (run.state.kind == RunState::Kind::other && !options_.again)
      throw UserError(
          "{} holds a run with {} ({}); give another --dir, or --again to do "
          "it anew",
          run.folder, run.state.is_other_data ? "other data" : "another config",
          run.state.difference);
    asked_.insert(request.id.dump());
    const auto same =
        std::find_if(trials_.begin(), trials_.end(),
                     [&](const Trial& trial) { return trial.run == &run; });
    if (same != trials_.end()) return join(*same, request.id);
    begin(run, request.id);
  }

  std::int64_t default_seed() const { return runs_.sweep().seeds.front(); }

  /// Lets the id have the trial that is being done, with what was seen of it so
  /// far.
  void join(Trial& trial, const Json& id) {
    if (trial.ids.empty()) trial.is_wanted_again = true;
    trial.ids.push_back(id);
    for (const Json& evaluation : trial.evaluations) tell(id, evaluation);
  }

  void begin(SweepRun& run, const Json& id) {
    run.is_pruned = false;
    const auto job = job_of(run, 0, runs_, options_);
    // Old evaluations of a run that begins anew would be sent as new ones.
    if (job && !is_continued(run, runs_.experiment_of(run), options_))
      fs::remove(run.folder + "/metrics.jsonl");
    trials_.push_back(
        {.run = &run, .ids = {id}, .tail = EvaluationTail(run.folder)});
    if (job) return slots_.add(*job);
    follow(trials_.back());
    end(trials_.back(), run.is_done() ? "done" : "failed", {{"cached", true}});
    trials_.pop_back();
  }

  void follow(Trial& trial) {
    for (const records::Evaluation& evaluation : trial.tail.next()) {
      trial.evaluations.push_back(figures_of(evaluation));
      for (const Json& id : trial.ids) tell(id, trial.evaluations.back());
    }
  }

  void tell(const Json& id, const Json& evaluation) {
    Json line = {{"event", "evaluation"}, {"id", id}};
    line.update(evaluation);
    answers_.write(line);
  }

  void prune(const Json& id) {
    const auto trial = trial_of(id);
    // The run may have ended before the driver could know.
    if (trial == trials_.end() && asked_.contains(id.dump())) return;
    if (trial == trials_.end())
      throw UserError("nothing was proposed as {}", id.dump());
    Trial own = *trial;
    own.ids = {id};
    end(own, "pruned", {});
    std::erase(trial->ids, id);
    if (!trial->ids.empty() || slots_.stop(*trial->run)) return;
    if (trial->run->state.kind == RunState::Kind::unfinished)
      mark_pruned(*trial->run);
    trials_.erase(trial);
  }

  void finish(const RunJob& job, const RunEnd& how) {
    if (how.kind == RunEnd::Kind::again) return;
    const auto trial =
        std::find_if(trials_.begin(), trials_.end(),
                     [&](const Trial& t) { return t.run == job.run; });
    follow(*trial);
    const bool is_stopped = how.kind == RunEnd::Kind::stopped;
    if (is_stopped && trial->is_wanted_again && !is_stopping_) {
      trial->is_wanted_again = false;
      return slots_.add(job);
    }
    if (is_stopped && trial->ids.empty())
      mark_pruned(*job.run);
    else if (is_stopped)
      end(*trial, "stopped", {});
    else if (how.kind == RunEnd::Kind::failed)
      end(*trial, "failed", {});
    else
      end(*trial, "done", {{"seconds", how.seconds}});
    trials_.erase(trial);
  }

  static void mark_pruned(SweepRun& run) {
    run.is_pruned = true;
    write_file_atomically(pruned_file(run.folder), [](std::ostream& file) {
      file << "pruned by the driver of the sweep\n";
    });
  }

  /// Answers all proposals that wait for it.
  void end(const Trial& trial, std::string_view state, const Json& more) {
    const SweepRun& run = *trial.run;
    Json line = {{"event", "end"}, {"id", nullptr}, {"state", state}};
    if (state == "failed") line["error"] = run.failure;
    if (!trial.evaluations.empty()) line.update(summary_of(trial.evaluations));
    line["seed"] = run.seed;
    line["folder"] = run.folder;
    if (!more.is_null()) line.update(more);
    line["evaluations"] = trial.evaluations;
    for (const Json& id : trial.ids) {
      line["id"] = id;
      answers_.write(line);
      count(state);
    }
  }

  /// The last figures of a trial, and the best ones.
  static Json summary_of(const std::vector<Json>& evaluations) {
    Json summary = evaluations.back();
    Json accuracy = nullptr;
    Json loss = nullptr;
    for (const Json& each : evaluations) {
      const auto a = each["accuracy"].get<double>();
      const auto l = each["loss"].get<double>();
      if (!std::isnan(a) && (accuracy.is_null() || a > accuracy)) accuracy = a;
      if (!std::isnan(l) && (loss.is_null() || l < loss)) loss = l;
    }
    summary["best_accuracy"] = accuracy;
    summary["best_loss"] = loss;
    return summary;
  }

  void count(std::string_view state) {
    ++result_.runs;
    if (state == "done") ++result_.done;
    if (state == "failed") ++result_.failed;
    if (state == "pruned") ++result_.pruned;
  }

  std::list<Trial>::iterator trial_of(const Json& id) {
    return std::find_if(trials_.begin(), trials_.end(), [&](const Trial& t) {
      return std::find(t.ids.begin(), t.ids.end(), id) != t.ids.end();
    });
  }

  SweepRuns& runs_;
  const SweepOptions& options_;
  std::string folder_;
  LineInput input_;
  Answers answers_;
  Slots slots_;
  std::list<Trial> trials_;      // in the order in which they were proposed
  std::set<std::string> asked_;  // ids, as JSON
  std::int64_t line_ = 0;
  bool is_stopping_ = false;
  SweepResult result_;
};

void refuse_cells(const Sweep& sweep) {
  if (!sweep.axes.empty() || !sweep.cells.empty() || sweep.samples > 0)
    throw UserError(
        "--ask-tell: the driver says what is run, but there is {}; leave it "
        "out",
        sweep.axes.empty() ? "a list of cells"
                           : fmt::format("the axis {}", sweep.axes[0].key));
  if (sweep.halving)
    throw UserError(
        "--ask-tell: the driver prunes, but there is sweep.halving; leave it "
        "out");
}

/// Writing to a driver that is gone shall be an error, not the end.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before_);
  }
  ~NoPipeSignal() { ::sigaction(SIGPIPE, &before_, nullptr); }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  struct sigaction before_ = {};
};

}  // namespace

SweepResult answer_proposals(const Sweep& sweep, const SweepOptions& options,
                             StopSignals& signals,
                             const DriverStreams& streams) {
  refuse_cells(sweep);
  std::atomic<bool> is_stopped = false;
  const StopScope stop(signals, [&] { is_stopped = true; });
  const NoPipeSignal no_signal;
  SweepFolder folder(folder_of(sweep, options));
  folder.open_if_there();
  refuse_beside_slurm(folder.path());
  SweepRuns runs(
      sweep, read_plan(folder.path()).value_or(SweepPlan{.name = sweep.name}),
      folder.path(), options.reader());
  folder.make_if_missing();
  mark_done(runs);
  return Conversation(runs, options, folder.path(), streams).answer(is_stopped);
}

std::string ask_tell_manual() {
  return R"(
sluice sweep CONFIG --ask-tell [--jobs N] [--dir DIR]: a driver, such as Optuna,
chooses the runs. It writes one JSON object per line to the standard input of
sluice, and reads one per line from its standard output. scripts/optuna-sweep is
a driver.

  {"id": 7, "params": {"optimizer.lr": 0.01}, "seed": 1}
            a proposal: keys of the config with their values. `id` is any text
            or integer, by default the line's number; `seed` by default the
            config's. At most --jobs proposals run at once, the others wait.
  {"prune": 7}
            stops the run of proposal 7, with a checkpoint
  end of the stream
            no more proposals; sluice ends when all are answered

sluice answers, with the proposal's `id`:

  {"event": "ready", "folder": DIR, "jobs": 2, "done": 5}
            the first line; "done": runs of the folder that are done already
  {"event": "evaluation", "id": 7, "turn": 100, "epoch": 1.0,
   "split": "validation", "accuracy": 0.93, "loss": 0.21, ...}
            while it runs, at each evaluation (evaluate_every); NaN is null.
            "split" names the split of the figures: "validation" where
            data.validation (for texts data.test) is set, with "test_accuracy"
            and "test_loss" beside them; else "test"
  {"event": "end", "id": 7, "state": "done", ..., "best_accuracy": 0.95,
   "best_loss": 0.18, "seed": 1, "folder": RUN, "evaluations": [...]}
            the last evaluation, the best values, and all evaluations; `state`
            is done, failed (with "error"), pruned, or stopped (interrupted; it
            continues when it is proposed again). "cached": true when the result
            was known and nothing was run
  {"event": "error", "id": 7, "line": 3, "error": "..."}
            the line was no valid request, or its config is wrong; nothing was
            run

A proposal with the values and seed of an earlier one, in the same folder, is
not run again: it has the same answers, also in a later session. A pruned or
interrupted run continues from its checkpoint; a failed one is tried again with
--on-failure retry. sweep.json lists the cells as for any sweep, and sluice
report shows them. Exit status: 0: all done, 3: some failed, 4: interrupted.
)";
}

}  // namespace sluice::sweep
