#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <ATen/ops/one_hot.h>

#include "lib/blocks/fused_linear.h"
#include "lib/boundaries/predictor.h"

namespace sluice {

struct PredictorOptions {
  std::int64_t hidden = 2;
  std::int64_t width = 1024;
  bool label = false;
  bool random_bias = false;
};

/// The sizes of a predictor's layers follow from these. Shapes are those of a
/// sample, without N.
struct PredictorSpec {
  std::string_view section = {};  ///< of the config; in errors
  SampleShape input = {};
  SampleShape output = {};
  std::int64_t classes = 0;
  PredictorOptions options = {};
};

// Kinds, each in the file of its name. Their members are called "linear1" or
// "conv1" and "norm1", and so on, "last" and "label"; weights are not set yet.

/// A linear synthesizer: features of any shape give [C], and tokens [T, C] give
/// [T, C], place by place.
std::shared_ptr<Predictor> linear_predictor(const PredictorSpec& spec);
/// [C', H', W'] -> [C, H, W].
std::shared_ptr<Predictor> conv_predictor(const PredictorSpec& spec);

/// The matrix of one-hot labels: [..., classes] -> [..., width].
inline FusedLinear label_matrix(std::int64_t classes, std::int64_t width) {
  return FusedLinear(torch::nn::LinearOptions(classes, width).bias(false));
}

/// Labels, one-hot, through their matrix: [N] or [N, T] -> [..., width]. Shares
/// and numbers, real [N, classes], as they are.
inline at::Tensor of_labels(FusedLinear& matrix, const at::Tensor& labels) {
  if (labels.is_floating_point()) return matrix->forward(labels);
  return matrix->forward(
      at::one_hot(labels, matrix->options.in_features()).to(at::kFloat));
}

}  // namespace sluice
