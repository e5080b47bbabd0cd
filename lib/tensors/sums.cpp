#include "lib/tensors/sums.h"

#include <cstddef>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Sum of tensors, one from each replica.
at::Tensor sum_of(const Tensors& parts) {
  at::Tensor first;
  at::Tensor sum;
  for (const at::Tensor& part : parts) {
    if (!part.defined()) continue;
    if (!first.defined())
      first = part;
    else if (!sum.defined())
      sum = first.add(part);
    else
      sum.add_(part);
  }
  // A copy, because the caller must not get a tensor that a replica published.
  return sum.defined() || !first.defined() ? sum : first.clone();
}

/// Mean of one tensor of each replica; all have it, or none.
at::Tensor mean_of(const Tensors& parts) {
  if (!parts.at(0).defined()) return {};
  at::Tensor mean = at::empty_like(parts[0]);
  mean_into(mean, parts);
  return mean;
}

template <class Combine>
Tensors combined(const std::vector<Tensors>& parts, Combine combine) {
  const at::NoGradGuard no_grad;
  Tensors all;
  for (std::size_t i = 0; i < parts.at(0).size(); ++i) {
    Tensors each;
    for (const Tensors& list : parts) {
      SLUICE_CHECK(list.size() == parts[0].size(),
                   "replicas gave {} and {} tensors to one sum",
                   parts[0].size(), list.size());
      each.push_back(list[i]);
    }
    all.push_back(combine(each));
  }
  return all;
}

}  // namespace

Tensors sum_in_order(const std::vector<Tensors>& parts) {
  return combined(parts, sum_of);
}

Tensors mean_in_order(const std::vector<Tensors>& parts) {
  return combined(parts, mean_of);
}

void mean_into(at::Tensor& mean, const Tensors& parts) {
  const at::Tensor& first = parts.at(0);
  if (parts.size() == 1) {
    mean.copy_(first);
    return;
  }
  at::sub_out(mean, first, parts[1]);
  for (std::size_t r = 2; r < parts.size(); ++r) mean.add_(first - parts[r]);
  mean.div_(static_cast<double>(parts.size()));
  at::sub_out(mean, first, mean);
}

}  // namespace sluice
