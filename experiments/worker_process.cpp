#include "experiments/worker_process.h"

#include <chrono>
#include <csignal>
#include <utility>

#include <unistd.h>

#include "experiments/assembly.h"
#include "experiments/config/toml.h"
#include "experiments/run_folder.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/control.h"
#include "lib/engines/remote_witness.h"
#include "lib/engines/worker_loop.h"

namespace sluice {

RendezvousOptions rendezvous_options(const Experiment& experiment) {
  const Deadline deadline = std::chrono::seconds(experiment.timeout_seconds);
  return {.blocks = static_cast<std::uint32_t>(experiment.blocks()),
          .control = kControlCapacity,
          .patience = deadline,
          .deadline = deadline};
}

std::vector<std::string> worker_command(const std::string& program,
                                        const std::string& folder, int block,
                                        const std::string& address,
                                        const std::string& resume) {
  std::vector<std::string> command = {program,    "worker",
                                      "--dir",    folder,
                                      "--block",  std::to_string(block),
                                      "--join",   address,
                                      "--parent", std::to_string(::getpid())};
  if (!resume.empty()) command.insert(command.end(), {"--resume", resume});
  return command;
}

int run_worker_process(const WorkerArguments& arguments) {
  die_with_parent(arguments.parent);
  const int block = arguments.block;
  // Ctrl-C reaches the whole terminal; the launcher decides what it means.
  std::signal(SIGINT, SIG_IGN);
  const Experiment experiment =
      read_experiment(read_toml_file(config_of_run(arguments.folder)), "");
  prepare_process(experiment);
  const auto capacity = [&](int boundary) {
    return boundary < 1 || boundary >= experiment.blocks()
               ? Capacity{}
               : experiment.capacities[static_cast<std::size_t>(boundary) - 1];
  };
  IoThread io;
  Neighbours links = join(
      io, arguments.address, static_cast<std::uint32_t>(block),
      capacity(block - 1), capacity(block), rendezvous_options(experiment));
  try {
    run_worker(block, experiment.plans, links.control, [&] {
      return make_worker(
          experiment, block, {std::move(links.below), std::move(links.above)},
          control_sink(*links.control.sender),
          {.checkpoints = checkpoints_of_run(arguments.folder),
           .resume = arguments.resume},
          experiment.probe_every > 0
              ? remote_witness(*links.control.sender, experiment.probe_every)
              : nullptr);
    });
  } catch (const std::exception&) {
    return 1;  // run_worker() has told the launcher, who says it
  }
  return 0;
}

}  // namespace sluice
