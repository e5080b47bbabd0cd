#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// What a block did, as a run's trace.json says; seconds.
struct TracedAction {
  int block = 1;
  std::string name = {};      ///< "F12"
  std::string category = {};  ///< "forward"
  double start = 0;
  double end = 0;
  std::int64_t turn = 0;
};

struct TracedMessage {
  std::string name = {};  ///< "activation"
  int from = 1;
  int to = 1;
  double sent = 0;
  double taken = 0;
};

struct TraceFile {
  std::vector<TracedAction> actions = {};
  std::vector<TracedMessage> messages = {};
};

/// The first turns that it shows only; waits lie behind the actions that they
/// are within. Throws UserError when the file is damaged.
TraceFile read_trace(const std::string& path, std::int64_t turns);

}  // namespace sluice
