#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/experiments/helpers/program.h"

namespace sluice {

// Exit statuses of `sluice sweep`.
constexpr int kDone = 0;
constexpr int kWrong = 2;
constexpr int kSomeFailed = 3;
constexpr int kNotAllDone = 4;

/// The evaluations of a run, without when they were made.
std::vector<nlohmann::json> evaluations_of(const std::string& run);

/// Sweeps of a small config, in folders of the test's.
class SluiceSweeps : public Program {
 protected:
  SluiceSweeps();

  /// Command line of the program.
  std::string command(const std::string& arguments,
                      const std::string& dir) const;
  Outcome sweep(const std::string& arguments,
                const std::string& dir = "out") const;
  /// Starts a sweep, sends it a signal once `text` is in the file `there`, and
  /// waits; returns what it printed, with its exit status last.
  std::string interrupted(const std::string& arguments, const std::string& dir,
                          const std::string& there, const std::string& text,
                          int signal) const;
  /// Bytes of all checkpoints and the evaluations of all runs, by file.
  std::map<std::string, std::string> numbers_of(const std::string& dir) const;
};

}  // namespace sluice
