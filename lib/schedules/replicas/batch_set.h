#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace sluice {

/// A set of batches that has few gaps, as what replicas have brought by some
/// time. Its size is that of the gaps.
class BatchSet {
 public:
  /// Returns whether the batch was not in it.
  bool insert(std::int64_t batch);
  /// The first batch of each part without a gap, and the one after its last.
  std::vector<std::int64_t> bounds() const;
  /// Throws UserError for what bounds() can't have returned.
  void restore(const std::vector<std::int64_t>& bounds);

 private:
  std::map<std::int64_t, std::int64_t> parts_;  // end, by begin
};

}  // namespace sluice
