// `sluice run --fast-dev-run`.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/card/card.h"
#include "experiments/program/commands.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// Turns per update of the block that has the most.
std::int64_t longest_window(const Experiment& experiment) {
  const std::vector<std::int64_t>& own = experiment.accumulate_by_block;
  return own.empty() ? experiment.accumulate
                     : *std::max_element(own.begin(), own.end());
}

/// Enough for each block to apply gradients of its own and delayed ones.
std::int64_t few_turns(const Experiment& experiment) {
  const std::int64_t updates = std::max(4, experiment.blocks() + 1);
  const std::int64_t turns = updates * longest_window(experiment);
  return std::min(turns, experiment.length.turns);
}

}  // namespace

RunArguments shortened(const RunArguments& arguments) {
  if (!arguments.resume.empty())
    throw UserError("--fast-dev-run begins a run; leave out --resume");
  if (is_card(arguments.config.config))
    throw UserError("--fast-dev-run is for a run; {} is a card of runs",
                    arguments.config.config);
  const Experiment whole = read_to_start(config_of(arguments.config));
  std::vector<std::string> overrides = {
      fmt::format("turns={}", few_turns(whole)),
      "evaluate_every=0",
      "timetable=[]",
      "checkpoint.every=0",
      "checkpoint.every_turns=0",
      fmt::format("limit.evaluation={}", 2 * whole.batch_size)};
  RunArguments run = arguments;
  run.fast_dev_run = false;
  const std::vector<std::string>& own = arguments.config.overrides;
  overrides.insert(overrides.end(), own.begin(), own.end());
  run.config.overrides = std::move(overrides);
  if (run.folder.empty()) {
    run.folder = "runs/fast-dev-run/" + whole.name;
    run.overwrite = true;
  }
  return run;
}

}  // namespace sluice
