#pragma once

#include <cstdint>
#include <ios>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lib/metrics/record.h"

namespace sluice {

/// The evaluations of a run, as it writes them. A run that goes back to a
/// checkpoint repeats some, with the same numbers: they come once.
class EvaluationTail {
 public:
  explicit EvaluationTail(std::string run_folder);

  /// The evaluations that have been written since the last call.
  std::vector<Record> next();

 private:
  std::string path_;
  ino_t file_ = 0;
  std::streamoff at_ = 0;
  std::int64_t turn_ = -1;
};

}  // namespace sluice
