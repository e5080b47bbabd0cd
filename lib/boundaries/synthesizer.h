#pragma once

#include <functional>
#include <memory>

#include <torch/nn/module.h>

#include "lib/base/config.h"
#include "lib/boundaries/head.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// A synthesizer M_k of synthetic gradients (Jaderberg et al. 2017,
/// arXiv:1608.05343): predicts, from the features of a block, the gradient of
/// the loss at them. Unless told otherwise its last layer begins at zero,
/// weights and biases, so that the first prediction is exactly zero.
class Synthesizer : public torch::nn::Module {
 public:
  /// features: h_k, [N, C], [N, T, C] or [N, C, H, W], without graph; labels
  /// [N] or [N, T]. Returns, in the shape of the features, the gradient times
  /// the number of labels: what the mean of the loss divided it by. (The policy
  /// may also teach it the gradient itself: raw_target.)
  virtual at::Tensor forward(const at::Tensor& features,
                             const at::Tensor& labels) = 0;
};

/// Makes the synthesizer for a boundary, its weights set from site.seed. Throws
/// UserError for features that it can't take.
using MakeSynthesizer =
    std::function<std::shared_ptr<Synthesizer>(const Site& site)>;
using ConfigureSynthesizer = MakeSynthesizer (*)(Fields& options);

}  // namespace sluice
