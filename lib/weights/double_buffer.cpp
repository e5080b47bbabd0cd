// PipeDream-2BW's two buffered weights (Narayanan et al. 2021,
// arXiv:2006.09503, section 3.1): the batches of window j go forward and
// backward at the weights after j - 1 updates, in every block,
// w_{j+1} = w_j - rate * gradient(w_{j-1}), so that the next window may begin
// before this one's update. What a batch sees depends on its window alone, and
// not on when the block does it.
#include "lib/weights/double_buffer.h"

#include <algorithm>

namespace sluice {

void DoubleBuffer::before_update(std::int64_t version) {
  KeptVersions::before_update(version);
  forget_before(version);
}

void DoubleBuffer::restore(const std::string& name, const SavedState& saved) {
  KeptVersions::restore(name, saved);
  first_ = first_or(first_);
}

std::int64_t DoubleBuffer::version_for(const Flight& flight) {
  if (first_ < 0) first_ = flight.version;
  return std::max<std::int64_t>(flight.version + flight.updates_ahead - 1,
                                first_);
}

std::unique_ptr<WeightView> make_double_buffer(const WeightViewSite& site) {
  return std::make_unique<DoubleBuffer>(site.block);
}

}  // namespace sluice
