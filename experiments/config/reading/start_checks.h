#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/experiment.h"

namespace sluice {

/// What a check of the config against data and length has found.
struct StartFault {
  std::string key = {};   ///< in the resolved config: "optimizer.lr"
  std::string text = {};  ///< value, what is wrong with it, remedy
};
using StartFaults = std::vector<StartFault>;

/// Whether a run begins all the same.
enum class FaultEffect : std::uint8_t { told, refused };

/// A check of what is known before the first turn, and would be met after
/// hours, or never.
struct StartCheck {
  std::string_view name;  ///< what it finds, for people
  FaultEffect answer = FaultEffect::told;
  StartFaults (*look)(const Experiment& experiment) = nullptr;
};

/// The table of all checks: a new one is a function of start_rows.h and a row.
std::span<const StartCheck> start_checks();

/// A line for each fault: "a.toml:7: early_stop.patience: 5 ...".
struct StartLines {
  std::vector<std::string> told = {};
  std::vector<std::string> refused = {};
};
StartLines lines_at_start(const Experiment& experiment);

/// The lines to tell where a run begins, is planned or printed. Throws
/// UserError with the first that refuses it.
std::vector<std::string> check_start(const Experiment& experiment);
/// Lines of all checks for a run that is continued: none of them refuses it.
std::vector<std::string> told_on_resume(const Experiment& experiment);

}  // namespace sluice
