#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

/// Supervised contrastive loss (Khosla et al. 2020, arXiv:2004.11362, its
/// L_out with one view): rows [N, F] are compared by cosine / temperature. For
/// each sample i, the mean over the others p of its class of -log(exp(s_ip) /
/// sum over all j != i of exp(s_ij)); a sample without such others counts 0;
/// averaged over N. Computed in float32 or better.
at::Tensor supervised_contrast(const at::Tensor& rows, const at::Tensor& labels,
                               double temperature);

}  // namespace sluice
