#pragma once

#include <cstdint>
#include <limits>

#include <ATen/core/Tensor.h>

#include "lib/blocks/loss.h"

namespace sluice {

/// How many predictions the labels are for: each of [N], or of texts [N, T], is
/// one; of shares or numbers, real [N, C], each row.
std::int64_t predictions_in(const at::Tensor& labels);

/// How many labels the logits get right: a scalar, int64. logits [N, classes]
/// and labels [N], or of texts [N, T, classes] and [N, T]. Undefined where
/// labels are real: nothing is right or wrong then.
at::Tensor correct_of(const at::Tensor& logits, const at::Tensor& labels);

/// Sums up the batches of an evaluation; batches of different sizes count by
/// their predictions.
class Evaluation {
 public:
  /// outputs: of the last block.
  void add(const Loss& loss, const at::Tensor& outputs,
           const at::Tensor& labels);

  double loss() const { return loss_ / static_cast<double>(labels_); }
  /// Whether labels were classes.
  bool has_accuracy() const { return has_accuracy_; }
  /// 0..1; NaN without accuracy.
  double accuracy() const {
    if (!has_accuracy_) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(correct_) / static_cast<double>(labels_);
  }
  std::int64_t labels() const { return labels_; }

 private:
  double loss_ = 0;
  std::int64_t correct_ = 0;
  std::int64_t labels_ = 0;
  bool has_accuracy_ = true;
};

}  // namespace sluice
