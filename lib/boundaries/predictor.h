#pragma once

#include <functional>
#include <memory>

#include <torch/nn/module.h>

#include "lib/base/config.h"
#include "lib/blocks/layer.h"
#include "lib/boundaries/head.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// A module that predicts a tensor of a known shape from another one, and from
/// the labels if it gets them. Two uses, both of Jaderberg et al. 2017,
/// arXiv:1608.05343:
///
/// A synthesizer M_k of synthetic gradients predicts, from the features h_k of
/// a block, the gradient of the loss at them, times the number of labels: what
/// the mean of the loss divided it by. (The policy may also teach it the
/// gradient itself: raw_target.) Unless told otherwise its last layer begins at
/// zero, weights and biases, so that the first prediction is exactly zero.
///
/// An input model I_k of an unlock predicts h_{k-1}, the features that block k
/// gets from below, from the input of the whole model, so that block k's
/// training forward doesn't wait for the blocks below.
class Predictor : public torch::nn::Module {
 public:
  /// input: without graph; of a synthesizer h_k, [N, C], [N, T, C] or
  /// [N, C, H, W]; of an input model the batch as block 1 gets it, [N, C] or
  /// [N, C, H, W]. labels: [N], of texts [N, T]. Returns the prediction in the
  /// shape of the features at the boundary.
  virtual at::Tensor forward(const at::Tensor& input, const at::Tensor& labels,
                             const Pass& pass) = 0;
};

/// Makes the predictor for a boundary, its weights set from site.seed. Throws
/// UserError for features that it can't take or predict.
using MakePredictor =
    std::function<std::shared_ptr<Predictor>(const BoundarySite& site)>;
using ConfigurePredictor = MakePredictor (*)(Fields& options);

}  // namespace sluice
