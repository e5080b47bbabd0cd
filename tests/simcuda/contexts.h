#pragma once

#include <array>
#include <string>
#include <string_view>

#include "tests/simcuda/clock.h"

namespace sluice::simcuda {

/// Where this process has started CUDA, which takes some hundred MiB of each
/// device. A device is asked for by a guard, by memory of it, or by work in its
/// streams. A call without a guard of its own starts CUDA on whatever device is
/// the thread's current one.
struct Contexts {
  std::array<bool, kDevices> asked = {};
  /// The call that started it on a device that no code has asked for yet.
  std::array<std::string, kDevices> started = {};
};

/// Reports a device that was started before, and is another one.
void ask_for(int device);

/// A call on the current device, of a process that works on another one: a
/// report, where no code has asked for it.
void call_on_current(std::string_view call);

/// Checks a call that takes any device on which CUDA is started, and the
/// current one only where there is none.
void call_on_any(std::string_view call);

/// Throws where break_device() has the device.
void check_works(int device);

}  // namespace sluice::simcuda
