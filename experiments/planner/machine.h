#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/schedules/simulation/costs.h"

namespace sluice::planner {

/// A device that blocks compute on.
struct PlannedDevice {
  std::string name = {};
  double speed = 1;        ///< over that of this machine
  std::int64_t cores = 1;  ///< a block takes as many as it has threads
  double memory = 0;       ///< bytes; 0: unknown
  /// Floating-point operations per second that it attains; 0: durations are
  /// those of this machine, by `speed`.
  double flops = 0;
};

/// The hardware that a run is planned for: a row of devices, with a link
/// between neighbours. Consecutive blocks are spread evenly over the devices.
struct Machine {
  std::vector<PlannedDevice> devices = {};
  std::vector<LinkCosts> links = {};  ///< index i: between devices i and i+1
  LinkCosts exchange = {};            ///< between replicas, any two of them
  bool is_this = false;               ///< the one that measures

  /// Whether durations follow from operations, and nothing is measured.
  bool computes() const;
};

/// This machine as one device, with all cores.
Machine this_machine();

/// Reads a TOML file with the keys of machine_manual(). Throws UserError for
/// everything that is wrong with the file.
Machine read_machine(const std::string& path);
std::vector<KeyDoc> machine_manual();

/// Number of blocks, with `threads` threads each, that fit on a device at a
/// time.
std::int64_t blocks_at_once(const PlannedDevice& device, std::int64_t threads);

/// The device of each block, or seat, in order: a single one goes to the
/// fastest.
std::vector<std::size_t> devices_of_blocks(const Machine& machine,
                                           std::size_t blocks);

/// Costs of the blocks, or of all seats, on `machine`, from `costs` measured on
/// this one, or computed_costs(): divided by the speed of a block's device, and
/// with devices shared where they have too few cores; messages between devices
/// take the times of their link, those within a device keep theirs.
Costs costs_on(const Machine& machine, Costs costs, std::int64_t threads);

}  // namespace sluice::planner
