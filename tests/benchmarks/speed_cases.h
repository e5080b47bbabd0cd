#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// What the speed benchmark trains.
struct SpeedCase {
  std::string_view name;
  std::int64_t batch_size;
  int steps;  ///< of a turn
  /// Of the model, its data and its optimizer: TOML lines. "ROOT" stands for
  /// the folder of the data files.
  std::string_view config;
};

std::span<const SpeedCase> speed_cases();
/// Throws UserError with the names.
const SpeedCase& speed_case(std::string_view name);

}  // namespace sluice
