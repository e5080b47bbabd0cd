#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace sluice {

/// Writes labels into samples (Hinton 2022, arXiv:2212.13345): each sample is
/// flattened, and its first `classes` values make room for the label, one-hot.
/// samples [N, ...] of D >= classes values, labels [N, V] int64 -> [N, V, D],
/// contiguous: V variants of each sample.
at::Tensor with_labels(const at::Tensor& samples, const at::Tensor& labels,
                       std::int64_t classes);

/// Reads the labels back, [N, V] int64, from samples that with_labels() made.
at::Tensor written_labels(const at::Tensor& variants, std::int64_t classes);

}  // namespace sluice
