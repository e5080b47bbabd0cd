#include "lib/blocks/mask_draws.h"

#include <utility>

#include "lib/base/error.h"
#include "lib/tensors/layouts.h"

namespace sluice {

at::Tensor MaskDraws::add(const at::Tensor& mask, Fill fill) {
  const bool has_place = draws_.size() < places_.size();
  const at::Tensor& place = has_place ? places_[draws_.size()] : mask;
  SLUICE_CHECK(layout_of(place) == layout_of(mask),
               "a forward that is captured twice draws other masks");
  draws_.push_back({place, std::move(fill)});
  return place;
}

void MaskDraws::draw(std::int64_t batch) const {
  for (const Draw& each : draws_) each.fill(each.mask, batch);
}

void MaskDraws::begin_again() {
  for (const Draw& each : draws_)
    places_.push_back(empty_tensor(layout_of(each.mask)));
  draws_.clear();
}

}  // namespace sluice
