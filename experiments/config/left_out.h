#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/base/config.h"

namespace sluice {

/// A line for each choice that has dropped keys: 'optimizer.name = "adam"
/// (command line) has dropped optimizer.momentum (a.toml:3)'. What was dropped
/// several times is said once.
std::vector<std::string> lines_of(std::span<const DroppedKey> keys);

/// Writes to stderr what an experiment does without, each line once.
void tell_left_out(const std::vector<std::string>& lines);

}  // namespace sluice
