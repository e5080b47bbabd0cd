#include "experiments/worker_process.h"

#include <chrono>
#include <csignal>
#include <utility>

#include <ATen/Parallel.h>
#include <unistd.h>

#include "experiments/assembly.h"
#include "experiments/config/toml.h"
#include "experiments/run_folder.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/control.h"
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
                                        const std::string& address) {
  return {program,    "worker",
          "--dir",    folder,
          "--block",  std::to_string(block),
          "--join",   address,
          "--parent", std::to_string(::getpid())};
}

int run_worker_process(const std::string& folder, int block,
                       const std::string& address, int parent) {
  die_with_parent(parent);
  // Ctrl-C reaches the whole terminal; the launcher decides what it means.
  std::signal(SIGINT, SIG_IGN);
  const Experiment experiment =
      read_experiment(read_toml_file(config_of_run(folder)), "");
  at::set_num_threads(static_cast<int>(experiment.threads));
  const auto capacity = [&](int boundary) {
    return boundary < 1 || boundary >= experiment.blocks()
               ? Capacity{}
               : experiment.capacities[static_cast<std::size_t>(boundary) - 1];
  };
  IoThread io;
  Neighbours links =
      join(io, address, static_cast<std::uint32_t>(block), capacity(block - 1),
           capacity(block), rendezvous_options(experiment));
  try {
    run_worker(experiment.plan.blocks.at(static_cast<std::size_t>(block) - 1),
               links.control, [&] {
                 return make_worker(
                     experiment, block,
                     {std::move(links.below), std::move(links.above)},
                     control_sink(*links.control.sender),
                     folder + "/checkpoints");
               });
  } catch (const std::exception&) {
    return 1;  // run_worker() has told the launcher, who says it
  }
  return 0;
}

}  // namespace sluice
