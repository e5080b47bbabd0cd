#pragma once

#include <cstdint>
#include <string>

#include "lib/weights/kept_versions.h"

namespace sluice {

/// PipeDream-2BW's two buffered weights: window j sees the version before the
/// previous update, max(j - 1, the first).
class DoubleBuffer : public KeptVersions {
 public:
  using KeptVersions::KeptVersions;
  using KeptVersions::restore;

  void before_update(std::int64_t version) override;
  void restore(const std::string& name, const SavedState& saved) override;

 protected:
  std::int64_t version_for(const Flight& flight) override;
  /// No batch sees an earlier version: that with which the run began, or a
  /// phase, or what continues a checkpoint that has none. Two windows see it.
  std::int64_t first() const { return first_; }

 private:
  std::int64_t first_ = -1;
};

}  // namespace sluice
