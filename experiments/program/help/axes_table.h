#pragma once

#include <string>

#include "experiments/program/help/method_examples.h"

namespace sluice {

/// Shape of the run in which a method's axes are found.
inline constexpr ExampleShape kAxesShape = {.blocks = 4, .replicas = 4};

/// All methods and presets with their three axes (planner::method_axes()), as a
/// table in Markdown, of which the columns are aligned.
std::string axes_table();

}  // namespace sluice
