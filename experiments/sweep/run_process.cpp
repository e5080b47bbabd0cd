#include "experiments/sweep/run_process.h"

#include <chrono>
#include <iostream>
#include <iterator>

#include "experiments/config/experiment.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/runs/run.h"
#include "lib/base/own_image.h"
#include "lib/engines/child_processes.h"

namespace sluice::sweep {

int do_run_of_sweep(const RunProcessArguments& arguments) {
  die_with_parent(arguments.parent);
  show_own_name();
  // The launcher tells it once, and Slurm may tell all processes of a task
  // too. Before LibTorch has threads.
  StopSignals signals(StopSignals::SecondSignal::ignored);
  const std::string config(std::istreambuf_iterator<char>(std::cin), {});
  // The config is resolved, so it has the place of the data.
  Experiment experiment =
      read_experiment(parse_toml(config, arguments.folder), "");
  experiment.length.pause_turn = arguments.pause_turn;
  // A run whose launcher was killed, here or with its node, may not have ended
  // yet, or not be known to have ended.
  constexpr std::chrono::seconds kPatience(90);
  const RunResult result = run(experiment,
                               {.folder = arguments.folder,
                                .overwrite = arguments.overwrite,
                                .resume = arguments.resume,
                                .patience = kPatience,
                                .quiet = true,
                                .command = arguments.command,
                                .program = kOwnImage},
                               signals);
  return result.complete ? 0 : kStopped;
}

}  // namespace sluice::sweep
