#include "tests/simcuda/nondeterministic.h"

#include <set>

namespace sluice::simcuda {

bool is_nondeterministic(const std::string& operation) {
  // Callers of alertNotDeterministic() in ATen/native/cuda.
  static const std::set<std::string> names = {
      "aten::_adaptive_avg_pool2d_backward",
      "aten::_adaptive_avg_pool3d_backward",
      "aten::adaptive_max_pool2d_backward",
      "aten::adaptive_max_pool3d_backward",
      "aten::avg_pool3d_backward",
      "aten::cumsum",
      "aten::fractional_max_pool2d_backward",
      "aten::fractional_max_pool3d_backward",
      "aten::grid_sampler_2d_backward",
      "aten::grid_sampler_3d_backward",
      "aten::histc",
      "aten::kthvalue",
      "aten::max_pool3d_with_indices_backward",
      "aten::max_unpool2d",
      "aten::max_unpool3d",
      "aten::nll_loss2d_backward",
      "aten::nll_loss2d_forward",
      "aten::reflection_pad1d_backward",
      "aten::reflection_pad2d_backward",
      "aten::reflection_pad3d_backward",
      "aten::replication_pad1d_backward",
      "aten::replication_pad2d_backward",
      "aten::replication_pad3d_backward",
      "aten::upsample_bicubic2d_backward",
      "aten::upsample_bilinear2d_backward",
      "aten::upsample_linear1d_backward",
      "aten::upsample_trilinear3d_backward",
  };
  return names.contains(operation);
}

}  // namespace sluice::simcuda
