// `sluice checkpoint`: which checkpoints a run has, and what is in flight
// there.
#include <filesystem>

#include <fmt/format.h>

#include "experiments/program/commands.h"
#include "experiments/runs/checkpoints/grant_start.h"
#include "experiments/runs/checkpoints/repartition.h"
#include "experiments/runs/folder/data_identity.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/uses/drain.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"

namespace sluice {
namespace {

std::string describe(const PendingBatches& in_flight) {
  if (in_flight.batches > 0)
    return fmt::format("{} batch{} in flight", in_flight.batches,
                       in_flight.batches == 1 ? "" : "es");
  if (in_flight.accumulated > 0)
    return fmt::format("drained, {} accumulated", in_flight.accumulated);
  return "drained";
}

void print_checkpoint(const std::string& path) {
  const SavedState saved(load_state(path), path);
  fmt::print("{}  {} blocks, {}\n", path, saved.numbers_below("workers").size(),
             describe(in_flight_in(saved)));
}

bool is_best(const std::string& checkpoint) {
  std::error_code none;
  return std::filesystem::equivalent(
      std::filesystem::path(checkpoint).parent_path() / "best", checkpoint,
      none);
}

void print_drained(const DrainResult& drained) {
  if (drained.batches == 0) {
    fmt::print("{}: nothing is in flight\n", drained.checkpoint);
    return;
  }
  fmt::print("{}: drained, {} batch{} applied\n", drained.checkpoint,
             drained.batches, drained.batches == 1 ? " is" : "es are");
  if (is_best(drained.checkpoint))
    fmt::print(
        "It is the run's best one, too, whose figures were measured before: "
        "sluice eval says what they are now\n");
}

}  // namespace

void checkpoint_command(const CheckpointArguments& arguments) {
  const std::string& folder = arguments.folder;
  last_checkpoint(folder);  // there is one
  if (!arguments.drain) {
    for (const auto& [turn, path] :
         find_checkpoints(checkpoints_of_run(folder)))
      print_checkpoint(path);
    return;
  }
  auto lock = lock_run(folder);
  const Experiment experiment = experiment_of({config_of_run(folder), {}});
  check_same_data(folder, experiment);
  print_drained(drain_last_checkpoint(folder, std::move(lock), experiment,
                                      arguments.command));
}

}  // namespace sluice
