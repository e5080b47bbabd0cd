#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/schedules/costs.h"

namespace sluice {

/// What blocks compute on.
struct PlannedDevice {
  std::string name = {};
  double speed = 1;        ///< over that of this machine
  std::int64_t cores = 1;  ///< a block takes as many as it has threads
  double memory = 0;       ///< bytes; 0: unknown
};

/// Where a run is planned: devices in a row, with a link between each two
/// neighbours. Consecutive blocks are dealt out over them evenly.
struct Machine {
  std::vector<PlannedDevice> devices = {};
  std::vector<LinkCosts> links = {};  ///< index i: between devices i and i+1
  bool is_this = false;               ///< the one that measures
};

/// One device with this machine's cores.
Machine this_machine();

/// From a TOML file; machine_manual() has its keys. Throws UserError for
/// everything that is wrong with it.
Machine read_machine(const std::string& path);
std::vector<KeyDoc> machine_manual();

/// How many blocks with so many threads compute on a device at a time.
std::int64_t blocks_at_once(const PlannedDevice& device, std::int64_t threads);

/// The device of each block, index k-1: a single block goes to the fastest.
std::vector<std::size_t> devices_of_blocks(const Machine& machine,
                                           std::size_t blocks);

/// What blocks that were measured on this machine cost on that one: devices are
/// faster, and shared; messages between devices take their link. Messages
/// within a device cost what they did.
Costs costs_on(const Machine& machine, Costs costs, std::int64_t threads);

}  // namespace sluice
