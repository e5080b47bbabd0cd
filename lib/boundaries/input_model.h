#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <torch/nn/module.h>

#include "lib/base/config.h"
#include "lib/blocks/layer.h"
#include "lib/boundaries/head.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/optimizer.h"

namespace sluice {

/// An input model I_k of full unlock (Jaderberg et al. 2017, arXiv:1608.05343):
/// predicts h_{k-1}, the features that block k gets from below, from the input
/// of the whole model, so that block k doesn't wait for the blocks below.
class InputModel : public torch::nn::Module {
 public:
  /// inputs: the batch as block 1 gets it, [N, C] or [N, C, H, W]; labels [N].
  /// Returns a prediction in the shape of the features, [N, ...].
  virtual at::Tensor forward(const at::Tensor& inputs, const at::Tensor& labels,
                             const Pass& pass) = 0;
};

/// Makes the input model for the block above a boundary, its weights set from
/// site.seed. Throws UserError for features that it can't predict.
using MakeInputModel =
    std::function<std::shared_ptr<InputModel>(const Site& site)>;
using ConfigureInputModel = MakeInputModel (*)(Fields& options);

/// What the block above a boundary forwards in place of the features from
/// below, and how it trains.
struct Unlock {
  std::shared_ptr<InputModel> model = {};
  NamedTensors parameters = {};  ///< "input_models.3.last.weight"
  NamedTensors buffers = {};
  std::optional<OptimizerOptions> optimizer = {};  ///< nothing: the block's
};

}  // namespace sluice
