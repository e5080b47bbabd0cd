#include "experiments/ranks/ranks.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "experiments/ranks/note.h"
#include "experiments/restarts.h"
#include "experiments/worker_process.h"
#include "lib/base/error.h"
#include "transport/tcp.h"
#include "transport/transports.h"

namespace sluice {
namespace {

/// How long rank 0 may take to say where it is: it reads the samples first.
std::chrono::milliseconds patience_of(const Experiment& experiment) {
  constexpr std::chrono::milliseconds kStart = std::chrono::minutes(1);
  return std::max<std::chrono::milliseconds>(
      std::chrono::seconds(experiment.timeout_seconds), kStart);
}

void check_hosts(const Rank& rank, const Experiment& experiment) {
  if (!transport_of(experiment.transport).encrypted)
    throw UserError(
        "{} has started processes on several hosts, but transport is '{}': set "
        "transport = 'tls'",
        rank.starter, experiment.transport);
  if (rank.master.empty())
    throw UserError(
        "{} has started processes on several hosts: set MASTER_ADDR and "
        "MASTER_PORT in their environment to where rank 0 may listen",
        rank.starter);
}

WorkerArguments from_note(const Note& note) {
  return {.folder = note.folder,
          .address = note.address,
          .resume = note.resume,
          .faults = note.faults};
}

/// Hosts have no other place in common than the run's folder.
WorkerArguments from_command_line(const Rank& rank,
                                  const Experiment& experiment,
                                  const RankArguments& arguments) {
  if (arguments.folder.empty())
    throw UserError(
        "{} has started processes on several hosts: give the run's folder "
        "with --dir, on a file system that all of them see",
        rank.starter);
  return {.folder = std::filesystem::absolute(arguments.folder),
          .address = rank.master,
          .resume = arguments.resume
                        ? restart_point(experiment, arguments.folder).checkpoint
                        : ""};
}

}  // namespace

void check_rank(const Rank& rank, const Experiment& experiment) {
  if (experiment.engine != "processes")
    throw UserError(
        "{} has started {} processes, but engine is '{}': set engine = "
        "'processes', or start one",
        rank.starter, rank.count, experiment.engine);
  if (rank.count != experiment.blocks())
    throw UserError(
        "{} has started {} processes, but the network has {} blocks: start one "
        "process per block",
        rank.starter, rank.count, experiment.blocks());
  if (experiment.restart_on_failure)
    throw UserError(
        "on_failure = 'restart': workers that {} has started can't be started "
        "again by rank 0; set on_failure = 'stop', and continue with --resume",
        rank.starter);
  if (!rank.one_host) check_hosts(rank, experiment);
}

Secret secret_of(const Rank& rank) {
  if (rank.one_host) return make_secret();
  const Environment environment = process_environment();
  if (const auto file = environment("SLUICE_SECRET_FILE"))
    return read_secret(*file);
  if (const auto text = environment("SLUICE_SECRET"))
    return parse_secret(*text, "SLUICE_SECRET");
  throw UserError(
      "{} has started processes on several hosts, which must prove that they "
      "belong together: make a secret with `(umask 077; openssl rand -hex 32 > "
      "FILE)` and set SLUICE_SECRET_FILE=FILE in their environment",
      rank.starter);
}

std::string host_of(const Rank& rank) {
  return rank.one_host ? "" : rank.master;
}

int run_rank(const Rank& rank, const Experiment& experiment,
             const RankArguments& arguments) {
  WorkerArguments worker;
  Secret secret;
  if (rank.one_host) {
    const Note note = wait_for_note(rank.job, patience_of(experiment));
    worker = from_note(note);
    secret = note.secret;
  } else {
    worker = from_command_line(rank, experiment, arguments);
    secret = secret_of(rank);
    wait_for_listener(worker.address, patience_of(experiment));
  }
  worker.block = rank.number + 1;
  return work_in_run(experiment, worker, secret);
}

}  // namespace sluice
