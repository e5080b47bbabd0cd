#include "lib/loss.h"

#include <array>

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/one_hot.h>

namespace sluice {
namespace {

Loss cross_entropy(Fields& options) {
  double label_smoothing = 0;
  options.key("label_smoothing", label_smoothing,
              {.text = "share of the target that is spread evenly over all "
                       "classes",
               .min = 0,
               .max = 1});
  return
      [label_smoothing](const at::Tensor& outputs, const at::Tensor& labels) {
        constexpr std::int64_t kNoIgnoredLabel = -100;
        return at::cross_entropy_loss(outputs.flatten(0, -2), labels.flatten(),
                                      /*weight=*/{}, at::Reduction::Mean,
                                      kNoIgnoredLabel, label_smoothing);
      };
}

/// The mean over samples and classes, as LibTorch's mse_loss: with 10 classes
/// a tenth of the squared distance.
Loss mean_squared_error(Fields&) {
  return [](const at::Tensor& outputs, const at::Tensor& labels) {
    const at::Tensor targets =
        at::one_hot(labels, outputs.size(-1)).to(outputs.scalar_type());
    return at::mse_loss(outputs, targets);
  };
}

}  // namespace

std::span<const LossRow> losses() {
  static constexpr std::array kRows = {
      LossRow{"cross_entropy", "softmax cross entropy, optionally smoothed",
              cross_entropy},
      LossRow{"mean_squared_error",
              "squared distance to the one-hot label, mean over samples and "
              "classes",
              mean_squared_error},
  };
  return kRows;
}

}  // namespace sluice
