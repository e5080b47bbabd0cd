#include "experiments/runs/seats/worker_arguments.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/engines/linked_crew.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

RendezvousOptions rendezvous_options(const Experiment& experiment,
                                     const Secret& secret) {
  const Deadline deadline = std::chrono::seconds(experiment.timeout_seconds);
  // A process takes a while to load its libraries, on a busy machine.
  constexpr Deadline kStart = std::chrono::minutes(1);
  return {.blocks = static_cast<std::uint32_t>(experiment.started_seats()),
          .name =
              [names = experiment.seat_names()](std::uint32_t seat) {
                // Checked, since a peer may say any number.
                const auto seats = static_cast<std::uint32_t>(names.seats());
                return seat == 0 || seat > seats
                           ? block_name(seat)
                           : names.of(static_cast<int>(seat));
              },
          .secret = secret,
          .control = control_capacity(experiment.seats()),
          .patience = std::max(deadline, kStart),
          .deadline = deadline,
          .reconnect = std::chrono::milliseconds(
              std::llround(std::ceil(experiment.reconnect_seconds * 1000)))};
}

Secret secret_from_launcher() {
  std::string text;
  std::getline(std::cin, text);
  return parse_secret(text, "the worker's standard input");
}

namespace {

/// WorkerArguments as a record, in the environment of a worker.
constexpr const char* kWorkerVariable = "SLUICE_WORKER";

std::vector<std::string> sluice_worker(const std::string& program,
                                       const WorkerArguments& arguments) {
  std::vector<std::string> command = {
      program,    "worker",
      "--dir",    arguments.folder,
      "--block",  std::to_string(arguments.block),
      "--join",   arguments.address,
      "--parent", std::to_string(arguments.parent)};
  if (!arguments.resume.empty())
    command.insert(command.end(), {"--resume", arguments.resume});
  if (!arguments.faults.empty())
    command.insert(command.end(), {"--inject", arguments.faults});
  if (arguments.local_rank >= 0)
    command.insert(command.end(),
                   {"--local-rank", std::to_string(arguments.local_rank)});
  if (arguments.joins > 0) command.emplace_back("--joins");
  return command;
}

}  // namespace

ChildCommand worker_command(const WorkerProgram& program,
                            WorkerArguments arguments) {
  arguments.parent = ::getpid();
  if (program.arguments.empty())
    return {.arguments = sluice_worker(program.file, arguments)};
  return {.arguments = program.arguments,
          .file = program.file,
          .environment = {
              fmt::format("{}={}", kWorkerVariable, to_json(arguments))}};
}

std::optional<WorkerArguments> take_worker_arguments() {
  // The process has no other thread yet.
  const char* const text =
      std::getenv(kWorkerVariable);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return std::nullopt;
  WorkerArguments arguments;
  try {
    arguments = record_from_json(text).as<WorkerArguments>().value();
  } catch (const std::exception&) {
    throw UserError("{} is for Sluice's own worker processes: unset it",
                    kWorkerVariable);
  }
  ::unsetenv(kWorkerVariable);  // NOLINT(concurrency-mt-unsafe)
  return arguments;
}

}  // namespace sluice
