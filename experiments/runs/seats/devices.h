#pragma once

#include <optional>

#include <c10/core/Device.h>

#include "experiments/config/experiment.h"

namespace sluice {

/// Device of a seat in this process: device_for() its block. Throws UserError
/// when the device is missing.
c10::Device device_of_seat(const Experiment& experiment, int seat,
                           std::optional<int> local_rank = std::nullopt);

/// Throws UserError when this machine lacks the device of any block.
void check_devices(const Experiment& experiment);

}  // namespace sluice
