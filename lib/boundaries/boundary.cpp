#include "lib/boundaries/boundary.h"

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {

Targets targets_of(const BoundarySite& site) {
  return site.model == nullptr ? Targets::classes : site.model->sample.targets;
}

void check_labels_are_classes(const BoundarySite& site, std::string_view what) {
  switch (targets_of(site)) {
    case Targets::classes:
      return;
    case Targets::shares:
      throw UserError(
          "{}: takes labels that are classes, and data.mixup and data.teacher "
          "make shares of them: leave these out, or choose another head or "
          "policy",
          what);
    case Targets::values:
      throw UserError(
          "{}: takes labels that are classes, and the targets of this data set "
          "are numbers: choose another head or policy",
          what);
  }
}

at::Tensor by_share(const at::Tensor& loss, const BatchContext& context) {
  return context.share == 1 ? loss : loss * context.share;
}

Payload Upper::inputs(const InputContext& /*context*/,
                      const std::function<Payload()>& next) {
  return next();
}

std::unique_ptr<Upper> make_plain_upper(const BoundarySite& /*site*/) {
  return std::make_unique<Upper>();
}

}  // namespace sluice
