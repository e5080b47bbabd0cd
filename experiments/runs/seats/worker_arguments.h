#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/engines/child_processes.h"
#include "lib/metrics/record.h"
#include "transport/meeting/rendezvous.h"
#include "transport/wire/secret.h"

// Agreement of a launcher and its worker processes: command line, environment
// and secret.
namespace sluice {

/// Options that launcher and workers of this experiment agree on, except the
/// transport (choose_transports() in ways.h). The launcher makes the secret
/// (make_secret()), and gives it to its workers as their standard input, which
/// other users can't read.
RendezvousOptions rendezvous_options(const Experiment& experiment,
                                     const Secret& secret);

/// The secret that a worker's launcher wrote to the worker's standard input.
/// Throws UserError.
Secret secret_from_launcher();

/// How the worker processes of a run are started.
struct WorkerProgram {
  std::string file = {};  ///< what is executed
  /// The command line of a program of one's own: its workers get the same, and
  /// a variable of their environment says what they are. Empty: that of `sluice
  /// worker`.
  std::vector<std::string> arguments = {};
};

/// Arguments of the worker of a block.
struct WorkerArguments {
  std::string folder = {};  ///< of the run
  int block = 1;
  std::string address = {};  ///< of its launcher
  /// The launcher's process, whose end ends this one; 0: something else has
  /// started this one, and no launcher supervises it.
  int parent = 0;
  std::string resume = {};  ///< the checkpoint that the run continues from
  /// The faults that it shall make happen, as parse_injections() takes them.
  std::string faults = {};
  /// Rank::local of the rank that it is, or whose worker; -1: of none.
  int local_rank = -1;
  int joins = 0;  ///< 1: its replica joins a run that goes on

  SLUICE_RECORD("worker", folder, block, address, parent, resume, faults,
                local_rank, joins)
};

/// Starts the program as that worker, whose parent is this process.
ChildCommand worker_command(const WorkerProgram& program,
                            WorkerArguments arguments);

/// Arguments from the launcher, in a program of one's own, if this process is a
/// worker. To be called once: children of this process are no workers. Throws
/// UserError.
std::optional<WorkerArguments> take_worker_arguments();

}  // namespace sluice
