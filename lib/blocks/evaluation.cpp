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

/// In float64, and never as a difference of two large sums: the mean may be far
/// from 0. (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
/// variance", for parts of different sizes.)
void Evaluation::add_numbers(const at::Tensor& outputs,
                             const at::Tensor& labels) {
  const at::Tensor y = labels.to(at::kDouble);
  const at::Tensor mean = y.mean(0);
  const at::Tensor spread = (y - mean).square().sum(0);
  const at::Tensor residuals =
      (y - outputs.detach().to(at::kDouble)).square().sum(0);
  if (!residuals_.defined()) {
    mean_ = mean;
    spread_ = spread;
    residuals_ = residuals;
    return;
  }
  const auto before = static_cast<double>(labels_);
  const auto now = static_cast<double>(labels.size(0));
  const at::Tensor delta = mean - mean_;
  mean_ = mean_ + delta * (now / (before + now));
  spread_ = spread_ + spread + delta.square() * (before * now / (before + now));
  residuals_ = residuals_ + residuals;
}

void Evaluation::add(const Loss& loss, const at::Tensor& outputs,
                     const at::Tensor& labels) {
  const std::int64_t count = predictions_in(labels);
  const auto weight = static_cast<double>(count);
  const at::Tensor mean = loss(outputs, labels).detach();
  const at::Tensor correct = correct_of(outputs, labels);
  has_accuracy_ = has_accuracy_ && correct.defined();
  if (labels.is_floating_point() && outputs.sizes() == labels.sizes())
    add_numbers(outputs, labels);
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

double Evaluation::r2() const {
  if (!has_r2()) return std::numeric_limits<double>::quiet_NaN();
  const at::Tensor spread = spread_.cpu().flatten();
  const at::Tensor residuals = residuals_.cpu().flatten();
  double sum = 0;
  for (std::int64_t i = 0; i < spread.numel(); ++i) {
    const double varies = spread[i].item<double>();
    const double missed = residuals[i].item<double>();
    if (varies > 0)
      sum += 1 - missed / varies;
    else if (missed == 0)
      sum += 1;
  }
  return sum / static_cast<double>(spread.numel());
}

}  // namespace sluice
