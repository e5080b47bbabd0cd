#include "lib/blocks/loss.h"

#include <array>

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/where.h>

#include "lib/base/added_rows.h"

namespace sluice {
namespace {

/// A loss that is the same in training and in evaluations.
RunLoss everywhere(const Loss& loss) {
  return {.training = loss, .evaluation = loss};
}

at::Tensor smoothed_cross_entropy(const at::Tensor& outputs,
                                  const at::Tensor& labels,
                                  double label_smoothing) {
  constexpr std::int64_t kNoIgnoredLabel = -100;
  const bool are_shares = labels.is_floating_point();
  return at::cross_entropy_loss(
      outputs.flatten(0, -2), are_shares ? labels : labels.flatten(),
      /*weight=*/{}, at::Reduction::Mean, kNoIgnoredLabel, label_smoothing);
}

/// With a temperature (Hinton et al. 2015, arXiv:1503.02531): of the outputs
/// divided by it, times its square, so that gradients keep their size.
Loss cross_entropy_of(double label_smoothing, double temperature) {
  return [=](const at::Tensor& outputs, const at::Tensor& labels) {
    if (temperature == 1)
      return smoothed_cross_entropy(outputs, labels, label_smoothing);
    return smoothed_cross_entropy(outputs / temperature, labels,
                                  label_smoothing) *
           (temperature * temperature);
  };
}

/// Evaluations are not smoothed and have no temperature, so that runs can be
/// compared by their test loss.
RunLoss cross_entropy(Fields& options) {
  double label_smoothing = 0;
  double temperature = 1;
  options.key("label_smoothing", label_smoothing,
              {.text = "share of the target that is spread evenly over all "
                       "classes, in training; evaluations report the loss "
                       "without it",
               .min = 0,
               .max = 1});
  options.key("temperature", temperature,
              {.text = "by which outputs are divided in training, where the "
                       "loss is multiplied by its square: that of a teacher "
                       "(data.teacher); evaluations have none",
               .min = 1e-3,
               .max = 1e3});
  return {.training = cross_entropy_of(label_smoothing, temperature),
          .evaluation = cross_entropy_of(0, 1)};
}

/// The mean over samples and classes, as LibTorch's mse_loss: with 10 classes
/// a tenth of the squared distance. Labels are classes, their shares, or the
/// numbers to be predicted.
at::Tensor squared_distance(const at::Tensor& outputs,
                            const at::Tensor& labels) {
  if (labels.is_floating_point()) {
    const at::ScalarType type =  // numbers are not rounded to bf16
        c10::promoteTypes(outputs.scalar_type(), labels.scalar_type());
    return at::mse_loss(outputs.to(type), labels.to(type));
  }
  const at::Tensor targets =
      at::one_hot(labels, outputs.size(-1)).to(outputs.scalar_type());
  return at::mse_loss(outputs, targets);
}

RunLoss mean_squared_error(Fields&) {
  return everywhere(squared_distance);
}

/// Forward-Forward (Hinton 2022, arXiv:2212.13345). outputs [*, V]: the
/// goodness of V variants of each sample or token, labels [*]: which one is
/// right.
RunLoss goodness(Fields& options) {
  double threshold = 1;
  options.key(
      "threshold", threshold,
      {.text = "goodness that the right variant shall exceed and the others "
               "stay below; with ff_mlp, about the width of a layer"});
  return everywhere(
      [threshold](const at::Tensor& outputs, const at::Tensor& labels) {
        const at::Tensor is_right =
            at::one_hot(labels, outputs.size(-1)).to(at::kBool);
        const at::Tensor excess = outputs - threshold;
        const at::Tensor costs =
            at::softplus(at::where(is_right, -excess, excess));  // [*, V]
        const at::Tensor right = costs.masked_fill(~is_right, 0).sum(-1);
        const at::Tensor wrong = costs.masked_fill(is_right, 0).sum(-1);
        const auto others = static_cast<double>(outputs.size(-1) - 1);
        return (right + wrong / others).mean();
      });
}

}  // namespace

std::span<const LossRow> losses() {
  static constexpr std::array kRows = {
      LossRow{"cross_entropy",
              "softmax cross entropy; label_smoothing for the training alone",
              cross_entropy},
      LossRow{"mean_squared_error",
              "squared distance to the one-hot label, or to the numbers of a "
              "regression, mean over samples and classes",
              mean_squared_error},
      LossRow{"goodness",
              "log(1 + exp) of what the goodness of the right variant lacks of "
              "a threshold, and that of the others has too much (Forward-"
              "Forward, Hinton 2022, arXiv:2212.13345)",
              goodness},
  };
  return with_added<ConfigureLoss>(kRows);
}

}  // namespace sluice
