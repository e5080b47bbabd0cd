#pragma once

#include <cstdint>

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
/// their predictions. On a GPU it is summed there, in the same order, and the
/// host waits when it reads.
class Evaluation {
 public:
  /// Adds a batch. outputs: of the last block.
  void add(const Loss& loss, const at::Tensor& outputs,
           const at::Tensor& labels);

  double loss() const;
  /// Whether labels were classes.
  bool has_accuracy() const { return has_accuracy_; }
  /// 0..1; NaN without accuracy.
  double accuracy() const;
  /// Whether labels were numbers, as many as outputs.
  bool has_r2() const { return residuals_.defined(); }
  /// The coefficient of determination (Wright 1921): of each number of a sample
  /// 1 - sum((y - output)^2) / sum((y - mean y)^2), over the samples of all
  /// batches; the mean of these over the numbers. One that is the same in all
  /// samples counts 1 where outputs meet it exactly, else 0, as scikit-learn's
  /// r2_score has it. NaN without.
  double r2() const;
  std::int64_t labels() const { return labels_; }

 private:
  void add_numbers(const at::Tensor& outputs, const at::Tensor& labels);

  double loss_ = 0;
  std::int64_t correct_ = 0;
  std::int64_t labels_ = 0;
  bool has_accuracy_ = true;
  // The parts of the two sums that are on a GPU; undefined: none.
  at::Tensor far_loss_;
  at::Tensor far_correct_;
  // Float64 [C], where the labels are: their mean so far, and the sums of
  // squared distances from it, and from outputs.
  at::Tensor mean_;
  at::Tensor spread_;
  at::Tensor residuals_;
};

}  // namespace sluice
