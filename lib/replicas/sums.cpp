#include "lib/replicas/sums.h"

#include <cstddef>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Of one tensor of each replica.
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
  // Nobody is given what a replica has published.
  return sum.defined() || !first.defined() ? sum : first.clone();
}

}  // namespace

Tensors sum_in_order(const std::vector<Tensors>& parts) {
  const at::NoGradGuard no_grad;
  Tensors sums;
  for (std::size_t i = 0; i < parts.at(0).size(); ++i) {
    Tensors each;
    for (const Tensors& list : parts) {
      SLUICE_CHECK(list.size() == parts[0].size(),
                   "replicas gave {} and {} tensors to one sum",
                   parts[0].size(), list.size());
      each.push_back(list[i]);
    }
    sums.push_back(sum_of(each));
  }
  return sums;
}

}  // namespace sluice
