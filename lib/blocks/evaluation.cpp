#include "lib/blocks/evaluation.h"

#include <ATen/ATen.h>

namespace sluice {

std::int64_t predictions_in(const at::Tensor& labels) {
  return labels.is_floating_point() ? labels.size(0) : labels.numel();
}

at::Tensor correct_of(const at::Tensor& logits, const at::Tensor& labels) {
  if (labels.is_floating_point()) return {};
  return logits.argmax(-1).eq(labels).sum();
}

void Evaluation::add(const Loss& loss, const at::Tensor& outputs,
                     const at::Tensor& labels) {
  const std::int64_t count = predictions_in(labels);
  loss_ += loss(outputs, labels).item<double>() * static_cast<double>(count);
  const at::Tensor correct = correct_of(outputs, labels);
  if (correct.defined())
    correct_ += correct.item<std::int64_t>();
  else
    has_accuracy_ = false;
  labels_ += count;
}

}  // namespace sluice
