#pragma once

#include <CLI/CLI.hpp>

namespace sluice {

// Numbers of the command line. CLI11's own validators print the largest double,
// with 309 digits, as the end of their range.

CLI::Validator positive_number();
CLI::Validator number_from_zero();

}  // namespace sluice
