#include "lib/blocks/evaluation.h"

#include <ATen/ATen.h>

namespace sluice {

at::Tensor correct_of(const at::Tensor& logits, const at::Tensor& labels) {
  return logits.argmax(-1).eq(labels).sum();
}

void Evaluation::add(const Loss& loss, const at::Tensor& outputs,
                     const at::Tensor& labels) {
  const std::int64_t count = labels.numel();
  loss_ += loss(outputs, labels).item<double>() * static_cast<double>(count);
  correct_ += correct_of(outputs, labels).item<std::int64_t>();
  labels_ += count;
}

}  // namespace sluice
