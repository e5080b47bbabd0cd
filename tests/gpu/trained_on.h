#pragma once

#include <string>

#include "lib/boundaries/boundary.h"

namespace sluice {

/// The weights of a small experiment, on the CPU, after it has trained on the
/// device.
NamedTensors trained_on(const std::string& device, const std::string& lines);

/// Weights of the run before it trains.
NamedTensors untrained(const std::string& lines);

}  // namespace sluice
