#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/boundaries/boundary.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/program.h"

namespace sluice {

/// A small run in three processes, with batches in flight and checkpoints every
/// 4 of its 20 turns, that is disturbed.
class Faults : public Program {
 protected:
  Faults();
  ~Faults() override;

  /// "run CONFIG --dir ...", `more` on its command line.
  std::string command(const std::string& dir, const std::string& more);
  Outcome run(const std::string& dir, const std::string& more) {
    return sluice(command(dir, more));
  }
  /// Runs with faults, and on_failure = "restart".
  Outcome run_with(const std::string& faults, const std::string& more = "");

  /// Expects that the run has written what an undisturbed one writes, bit for
  /// bit, but for times and what is said of restarts; and left nothing else
  /// behind.
  void expect_undisturbed(const std::string& dir, const std::string& more = "");
  /// The two halves of it, for many runs that are compared with one: makes the
  /// undisturbed run, and expects its bits.
  void run_undisturbed(const std::string& more = "");
  void expect_as_undisturbed(const std::string& dir);
  void expect_nothing_left(const std::string& dir);

  /// The weights of the undisturbed run's end.
  NamedTensors weights_at_end(const std::string& dir);

  std::string config_;
  std::string sockets_;  ///< the temporary folder of the runs
};

/// The records of a kind.
std::vector<Record> records_of(const std::string& dir, const std::string& kind);

/// The processes that have `word` on their command line.
std::vector<int> processes_with(const std::string& word);

/// The worker of a block of the run in that folder; 0: none.
int worker_of(const std::string& dir, int block);

}  // namespace sluice
