#include "modules/label_in_sample.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/one_hot.h>

#include "lib/base/error.h"

namespace sluice {

at::Tensor with_labels(const at::Tensor& samples, const at::Tensor& labels,
                       std::int64_t classes) {
  // About the brightest pixel of a normalised image.
  constexpr double kLabelValue = 3;
  const at::Tensor flat = samples.flatten(1);  // [N, D]
  SLUICE_CHECK(flat.size(1) >= classes, "{} classes don't fit into {} values",
               classes, flat.size(1));
  const std::int64_t variants = labels.size(1);
  at::Tensor all = flat.unsqueeze(1)
                       .expand({flat.size(0), variants, flat.size(1)})
                       .clone(at::MemoryFormat::Contiguous);
  all.narrow(2, 0, classes)
      .copy_(at::one_hot(labels, classes).to(all.scalar_type()) * kLabelValue);
  return all;
}

at::Tensor written_labels(const at::Tensor& variants, std::int64_t classes) {
  return variants.narrow(2, 0, classes).argmax(2);
}

}  // namespace sluice
