#include "lib/tensors/sums.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

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

Tensors weighted_mean_in_order(const std::vector<Tensors>& parts,
                               const std::vector<std::int64_t>& weights) {
  SLUICE_CHECK(weights.size() == parts.size(), "{} weights for {} replicas",
               weights.size(), parts.size());
  if (std::all_of(weights.begin(), weights.end(),
                  [&](std::int64_t each) { return each == weights.front(); }))
    return mean_in_order(parts);
  const auto all = static_cast<double>(
      std::accumulate(weights.begin(), weights.end(), std::int64_t{0}));
  return combined(parts, [&](const Tensors& each) -> at::Tensor {
    if (!each.at(0).defined()) return {};
    at::Tensor mean = each[0].clone();
    for (std::size_t r = 1; r < each.size(); ++r)
      mean.add_(each[r] - each[0], static_cast<double>(weights[r]) / all);
    return mean;
  });
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
