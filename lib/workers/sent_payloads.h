#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "lib/checkpoints/saved_state.h"
#include "lib/workers/payloads.h"

namespace sluice {

/// What went down a boundary and may be under way when a checkpoint is taken:
/// a run that goes on sends it again.
class SentPayloads {
 public:
  /// Keeps the payloads of the last `most` batches.
  void remember(std::int64_t batch, const DownPayload& down, std::int64_t most);
  /// Gives all that it holds, by batch, and forgets it.
  std::map<std::int64_t, DownPayload> take();
  std::int64_t bytes() const;

  /// Adds the payloads' tensors as "<name>.<batch>.*".
  void save(const std::string& name, NamedTensors& all) const;
  void restore(const std::string& name, const SavedState& saved,
               const std::vector<std::int64_t>& batches,
               const c10::Device& device);

 private:
  std::map<std::int64_t, DownPayload> sent_;
};

}  // namespace sluice
