#include "experiments/runs/processes/join_run.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/config/rules/replica_rules.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/processes/door.h"
#include "experiments/runs/ranks/note.h"
#include "experiments/runs/seats/worker_arguments.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/engines/child_processes.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kBetweenTries(50);

Experiment joinable_experiment(const std::string& folder) {
  check_is_run(folder);
  Experiment experiment =
      read_experiment(read_toml_file(config_of_run(folder)), "");
  if (!can_be_joined(experiment))
    throw UserError(
        "{}: no replica can join this run: its replicas wait for each other, "
        "have shares of the batches, or are on GPUs; `sluice help config "
        "replicas.start_with` says which can",
        folder);
  return experiment;
}

Note note_for(const std::string& folder, double wait_seconds) {
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(wait_seconds);
  while (true) {
    if (auto note = take_note(door_of_run(folder))) return *std::move(note);
    const bool is_over = std::filesystem::exists(folder + "/done");
    if (is_over || std::chrono::steady_clock::now() > end)
      throw UserError(
          "{}: has no free place for a replica: {}; --wait SECONDS waits for "
          "one, and replicas.start_with leaves places free",
          folder,
          is_over
              ? "it is over"
              : "all are there, another one is joining, or it doesn't go on on "
                "this host");
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace

int join_run(const JoinArguments& arguments, StopSignals& signals) {
  const std::string folder = std::filesystem::absolute(arguments.folder);
  const Experiment experiment = joinable_experiment(folder);
  const SeatNames names = experiment.seat_names();
  const Note note = note_for(folder, arguments.wait_seconds);
  std::atomic<bool> stops = false;
  signals.on_stop([&] { stops = true; },
                  fmt::format("Replica {} leaves the run.", note.replica));
  ChildProcesses workers(names);
  for (int block = 1; block <= names.depth; ++block) {
    const int seat = (note.replica - 1) * names.depth + block;
    workers.start(
        seat,
        worker_command({.file = arguments.program}, {.folder = folder,
                                                     .block = seat,
                                                     .address = note.address,
                                                     .faults = arguments.faults,
                                                     .joins = 1}),
        note.secret.text());
  }
  say("sluice: replica {} joins {}\n", note.replica, folder);
  while (!stops && workers.some_run()) {
    workers.check();
    std::this_thread::sleep_for(kBetweenTries);
  }
  if (stops) {
    workers.kill_all();
    return 0;
  }
  workers.check();
  say("sluice: replica {}: the run is over\n", note.replica);
  return 0;
}

}  // namespace sluice
