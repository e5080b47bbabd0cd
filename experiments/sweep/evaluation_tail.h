#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/runs/folder/run_reader.h"
#include "lib/metrics/records.h"

namespace sluice::sweep {

/// The evaluations of a run, as it writes them. A run that goes back to a
/// checkpoint repeats some, with the same numbers: they come once.
class EvaluationTail {
 public:
  explicit EvaluationTail(const std::string& run_folder)
      : reader_(run_folder) {}

  /// The evaluations that have been written since the last call.
  std::vector<records::Evaluation> next() {
    std::vector<records::Evaluation> found =
        reader_.next<records::Evaluation>();
    std::erase_if(found, [&](const records::Evaluation& evaluation) {
      const bool is_new = evaluation.turn > turn_;
      if (is_new) turn_ = evaluation.turn;
      return !is_new;
    });
    return found;
  }

 private:
  RunReader reader_;
  std::int64_t turn_ = -1;
};

}  // namespace sluice::sweep
