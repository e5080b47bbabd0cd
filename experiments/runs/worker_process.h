#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "transport/meeting/rendezvous.h"
#include "transport/wire/secret.h"

namespace sluice {

/// What launcher and workers of this experiment agree on. The launcher makes
/// the secret (make_secret()), and gives it to its workers as their standard
/// input, which other users can't read.
RendezvousOptions rendezvous_options(const Experiment& experiment,
                                     const Secret& secret);

/// Of a worker: what its launcher wrote to its standard input. Throws
/// UserError.
Secret secret_from_launcher();

/// The command line that starts `program` as the worker of a block of the run
/// in `folder`, whose launcher is this process, at `address`. `resume` is the
/// checkpoint that the run continues from, or empty; `faults` are those that it
/// shall make happen, as parse_injections() has them.
std::vector<std::string> worker_command(const std::string& program,
                                        const std::string& folder, int block,
                                        const std::string& address,
                                        const std::string& resume,
                                        const std::string& faults = {});

/// What that command line says.
struct WorkerArguments {
  std::string folder = {};
  int block = 1;
  std::string address = {};
  /// The launcher's process, whose end ends this one; 0: something else has
  /// started this one, and nobody supervises it.
  int parent = 0;
  std::string resume = {};
  std::string faults = {};
};

/// What that command does. Returns the exit status.
int run_worker_process(const WorkerArguments& arguments);

/// What a worker that is a rank does beside.
struct RankHooks {
  std::string terms = {};  ///< for RendezvousOptions::run
  /// Called when it has joined, with those of rank 0.
  std::function<void(const std::string& terms)> joined = nullptr;
};

/// What a worker does, from joining the others to the last grant. Returns the
/// exit status; throws what goes wrong before it has joined.
int work_in_run(const Experiment& experiment, const WorkerArguments& arguments,
                const Secret& secret, const RankHooks& rank = {});

}  // namespace sluice
