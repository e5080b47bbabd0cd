#pragma once

#include <string>
#include <vector>

#include "experiments/experiment.h"
#include "transport/rendezvous.h"

namespace sluice {

/// What launcher and workers of this experiment agree on.
RendezvousOptions rendezvous_options(const Experiment& experiment);

/// The command line that starts `program` as the worker of a block of the run
/// in `folder`, whose launcher is this process, at `address`. `resume` is the
/// checkpoint that the run continues from, or empty.
std::vector<std::string> worker_command(const std::string& program,
                                        const std::string& folder, int block,
                                        const std::string& address,
                                        const std::string& resume);

/// What that command line says.
struct WorkerArguments {
  std::string folder;
  int block = 1;
  std::string address;
  int parent = 0;  ///< the launcher's process, whose end ends this one
  std::string resume;
};

/// What that command does, from joining the others to the last grant. Returns
/// the exit status; throws what goes wrong before the worker has joined.
int run_worker_process(const WorkerArguments& arguments);

}  // namespace sluice
