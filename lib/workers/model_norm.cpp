#include "lib/workers/model_norm.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

#include "lib/schedules/plan/exchange_table.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"
#include "lib/updates/clipping.h"

namespace sluice {

at::Tensor norm_in(const Message& message, const c10::Device& device) {
  return on_device(unpack(message, "norm").at(0), device).clone();
}

bool ModelNorm::goes_with_gradients() const {
  return place_.run().model_norm &&
         !is_norm_of_exchanged(place_.run(), place_.seat());
}

at::Tensor ModelNorm::squared() const {
  const at::Tensor& above = window_.squared_norm_above;
  const std::vector<Tensors>& steps = replicas_.steps();
  if (steps.empty()) return squared_norm(window_.gradients, above);
  Tensors all;
  for (std::size_t i = 0; i < steps.size(); ++i)
    all.push_back(squared_norm(
        steps[i],
        above.defined() ? above[static_cast<std::int64_t>(i)] : at::Tensor()));
  return at::stack(all);
}

void ModelNorm::take(const Message& from_above) {
  window_.squared_norm_above = norm_in(from_above, device_);
}

void ModelNorm::put_into(Message& message) const {
  pack({squared()}, "norm", message);
}

}  // namespace sluice
