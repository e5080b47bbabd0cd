#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// Number of files that a check has read, and of damaged ones.
struct DataCheckResult {
  std::int64_t read = 0;     ///< files or samples
  std::int64_t damaged = 0;  ///< of these
};

/// Reads all that a data set has, to the end: every file where there are many,
/// else every sample of every split, without its random changes. `tell` gets a
/// line for each that can't be read or has a number that is NaN or infinite;
/// `list`, where it isn't empty, one for each file: "SPLIT LABEL CLASS
/// HEIGHTxWIDTH ORIENTATION PATH".
DataCheckResult check_data(const DataSet& data,
                           const std::function<void(const std::string&)>& tell,
                           const std::function<void(const std::string&)>& list);

}  // namespace sluice
