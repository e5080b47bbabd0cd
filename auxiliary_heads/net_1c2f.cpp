#include "auxiliary_heads/net_1c2f.h"

#include <algorithm>

#include <ATen/ops/relu.h>

#include "auxiliary_heads/boundary_site.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

constexpr std::int64_t kHidden = 128;

bool is_widest(const BoundarySite& site) {
  if (site.model == nullptr) return false;
  return std::none_of(site.model->layers.begin(), site.model->layers.end(),
                      [&](const LayerSpec& layer) {
                        return layer.output.size() == 3 &&
                               layer.output[0] > site.features[0];
                      });
}

}  // namespace

Net1c2f::Net1c2f(const BoundarySite& site, std::int64_t outputs) {
  const std::int64_t channels = site.features[0];
  const std::int64_t times = is_widest(site) ? 1 : 2;
  pixels_ = ((site.features[1] - 1) / times + 1) *
            ((site.features[2] - 1) / times + 1);
  conv_ = register_module(
      "conv",
      torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, times * channels, 3)
                            .stride(times)
                            .padding(1)
                            .bias(false)));
  norm_ = register_module("norm", torch::nn::BatchNorm2d(times * channels));
  linear1_ = register_module("linear1", FusedLinear(times * channels, kHidden));
  linear2_ = register_module("linear2", FusedLinear(kHidden, outputs));
  initialise_parameters(*this, head_key(site, "1c2f"));
}

at::Tensor Net1c2f::forward(const at::Tensor& maps, std::string_view head) {
  if (is_training()) check_batch(maps, pixels_, head);
  const at::Tensor x = pixel_mean(at::relu(norm_(conv_(maps))));
  return linear2_(at::relu(linear1_(x)));
}

}  // namespace sluice
