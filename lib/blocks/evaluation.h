#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lib/blocks/loss.h"

namespace sluice {

/// How many labels the logits get right: a scalar, int64. logits [N, classes]
/// and labels [N], or of texts [N, T, classes] and [N, T].
at::Tensor correct_of(const at::Tensor& logits, const at::Tensor& labels);

/// Sums up the batches of an evaluation; batches of different sizes count by
/// their labels. On a GPU it is summed there, in the same order, and the host
/// waits when it reads.
class Evaluation {
 public:
  /// outputs: of the last block.
  void add(const Loss& loss, const at::Tensor& outputs,
           const at::Tensor& labels);

  double loss() const;
  /// 0..1
  double accuracy() const;
  std::int64_t labels() const { return labels_; }

 private:
  double loss_ = 0;
  std::int64_t correct_ = 0;
  std::int64_t labels_ = 0;
  // What is on a GPU of the two sums; undefined: nothing.
  at::Tensor far_loss_;
  at::Tensor far_correct_;
};

}  // namespace sluice
