#include "lib/blocks/evaluation.h"

#include <limits>

#include <ATen/ATen.h>

namespace sluice {

std::int64_t predictions_in(const at::Tensor& labels) {
  return labels.is_floating_point() ? labels.size(0) : labels.numel();
}

at::Tensor correct_of(const at::Tensor& logits, const at::Tensor& labels) {
  if (labels.is_floating_point()) return {};
  return logits.argmax(-1).eq(labels).sum();
}

namespace {

void add_far(at::Tensor& sum, const at::Tensor& value) {
  sum = sum.defined() ? sum + value : value;
}

}  // namespace

void Evaluation::add(const Loss& loss, const at::Tensor& outputs,
                     const at::Tensor& labels) {
  const std::int64_t count = predictions_in(labels);
  const auto weight = static_cast<double>(count);
  const at::Tensor mean = loss(outputs, labels).detach();
  const at::Tensor correct = correct_of(outputs, labels);
  has_accuracy_ = has_accuracy_ && correct.defined();
  labels_ += count;
  if (mean.is_cpu()) {
    loss_ += mean.item<double>() * weight;
    if (correct.defined()) correct_ += correct.item<std::int64_t>();
  } else {
    add_far(far_loss_, mean.to(at::kDouble) * weight);
    if (correct.defined()) add_far(far_correct_, correct);
  }
}

double Evaluation::loss() const {
  const double far = far_loss_.defined() ? far_loss_.item<double>() : 0;
  return (loss_ + far) / static_cast<double>(labels_);
}

double Evaluation::accuracy() const {
  if (!has_accuracy_) return std::numeric_limits<double>::quiet_NaN();
  const std::int64_t far =
      far_correct_.defined() ? far_correct_.item<std::int64_t>() : 0;
  return static_cast<double>(correct_ + far) / static_cast<double>(labels_);
}

}  // namespace sluice
