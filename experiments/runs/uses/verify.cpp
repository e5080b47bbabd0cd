#include "experiments/runs/uses/verify.h"

#include <algorithm>
#include <utility>

#include "experiments/runs/folder/hashes.h"
#include "experiments/runs/folder/maker.h"
#include "experiments/runs/run.h"
#include "experiments/runs/uses/replay.h"
#include "lib/base/error.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/base/nearest.h"
#include "lib/schedules/orders/free_running.h"

namespace sluice {
namespace {

void check_options(const VerifyOptions& options, bool is_free) {
  if (!is_free && options.engines.size() < 2)
    throw UserError("verify compares engines: give --engines two or more");
  for (const std::string& change : options.changes) {
    const std::string engine = change.substr(0, change.find(':'));
    if (std::find(options.engines.begin(), options.engines.end(), engine) ==
        options.engines.end())
      throw UserError("--change {}: wants ENGINE:KEY=VALUE with one of {}",
                      change, joined(options.engines));
  }
}

/// Refuses runs in which a race decides, for which no engine is to blame.
void check_no_race(const Experiment& experiment) {
  const ReplicaSettings& replicas = experiment.replicas;
  if (replicas.count > 1 && replicas.kind.exchange.in_memory)
    throw UserError(
        "verify compares the bits of engines, and with replicas.policy = '{}' "
        "a race decides what each replica finds: set another policy, or "
        "replicas.count = 1",
        replicas.policy);
}

class Verification {
 public:
  Verification(const VerifyOptions& options, StopSignals& signals)
      : options_(options), signals_(signals) {
    const Experiment experiment = options_.read({});
    check_no_race(experiment);
    verified_ = {.is_free = runs_free(experiment.plans.front()) ||
                            experiment.assist.is_free,
                 .blocks = experiment.blocks(),
                 .turns = std::min({options_.turns, experiment.turns_per_epoch,
                                    experiment.length.turns}),
                 .maker = text_of(maker_here(experiment))};
    check_options(options_, verified_.is_free);
  }

  VerifyResult run() && {
    for (const std::string& engine : options_.engines) {
      const std::string folder = folder_.path() + "/" + engine;
      run_on(engine, folder);
      verified_.engines.push_back({engine, difference_in(folder)});
    }
    return std::move(verified_);
  }

 private:
  Experiment experiment_on(const std::string& engine) const {
    std::vector<std::string> overrides = {
        "engine=" + engine, fmt::format("turns={}", verified_.turns),
        "hashes=true"};
    for (const std::string& change : options_.changes)
      if (change.starts_with(engine + ":"))
        overrides.push_back(change.substr(engine.size() + 1));
    Experiment experiment = options_.read(overrides);
    experiment.loggers.clear();  // it is no experiment
    return experiment;
  }

  void run_on(const std::string& engine, const std::string& folder) {
    const RunResult result = sluice::run(experiment_on(engine),
                                         {.folder = folder,
                                          .quiet = true,
                                          .command = "sluice verify",
                                          .program = options_.program},
                                         signals_);
    if (!result.complete) throw UserError("stopped before it was over");
  }

  std::string difference_in(const std::string& folder) {
    if (verified_.is_free) return replay(folder).difference();
    Hashes hashes = read_hashes(folder);
    if (verified_.engines.empty()) {
      reference_ = std::move(hashes);
      return "";
    }
    const auto found = first_difference(reference_, hashes);
    return found ? to_text(*found) : "";
  }

  const VerifyOptions& options_;
  StopSignals& signals_;
  TemporaryFolder folder_;
  Hashes reference_;
  VerifyResult verified_;
};

}  // namespace

bool VerifyResult::is_same() const {
  return std::all_of(
      engines.begin(), engines.end(),
      [](const VerifiedEngine& one) { return one.difference.empty(); });
}

VerifyResult verify(const VerifyOptions& options, StopSignals& signals) {
  return Verification(options, signals).run();
}

}  // namespace sluice
