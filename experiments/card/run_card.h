#pragma once

#include <string>
#include <vector>

#include "experiments/card/report.h"
#include "experiments/runs/processes/stop_signals.h"

namespace sluice {

struct CardOptions {
  std::string path = {};                    ///< of the card
  std::vector<std::string> overrides = {};  ///< "a.b=c", for all runs
  /// Holds a folder per run, report.md and report.json; empty:
  /// runs/cards/NAME, or runs/cards/NAME-trial where overrides change numbers.
  std::string folder = {};
  std::vector<std::string> only = {};  ///< runs by name; empty: all
  /// Start the runs anew that stand there.
  bool overwrite = false;
  std::string command = {};    ///< for run.json
  std::string program = {};    ///< what workers are started from
  std::string data_root = {};  ///< where the config names none
};

/// Does the card's runs one after another: skips what is done with the same
/// config, continues what was interrupted. A signal ends it cleanly. The report
/// is about all runs, done or not, and is written when it returns. Throws
/// UserError before anything is written for a bad card or config, and for a
/// folder that holds another run.
CardReport run_card(const CardOptions& options, StopSignals& signals);

}  // namespace sluice
