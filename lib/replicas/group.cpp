#include "lib/replicas/group.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Whole numbers as wide as those of a type: added to 0, they keep all bits.
at::ScalarType bits_of(at::ScalarType type) {
  switch (c10::elementSize(type)) {
    case 1:
      return at::kChar;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    default:
      return at::kLong;
  }
}

}  // namespace

Tensors Group::finish_mean() {
  const at::NoGradGuard no_grad;
  Tensors means = finish_sum();
  for (at::Tensor& mean : means)
    if (mean.defined()) mean = mean / members();
  return means;
}

void Group::start_parts(Tensors mine) {
  start_sum(std::move(mine));
}

Tensors Group::finish_parts() {
  const at::NoGradGuard no_grad;
  Tensors parts;
  for (const at::Tensor& part : parts_of(finish_sum(), share()))
    parts.push_back(part.defined() ? part.clone() : part);
  return parts;
}

void Group::start_gather(const Tensors& whole) {
  const at::NoGradGuard no_grad;
  Tensors bits;
  for (const at::Tensor& tensor : whole) {
    const at::Tensor line = line_of(tensor);
    const at::ScalarType type = bits_of(line.scalar_type());
    bits.push_back(at::zeros({line.numel()}, line.options().dtype(type)));
    part_of(bits.back(), share()).copy_(part_of(line, share()).view(type));
  }
  start_sum(std::move(bits));
}

void Group::finish_gather(const Tensors& whole) {
  const at::NoGradGuard no_grad;
  const Tensors bits = finish_sum();
  for (int other = 1; other <= members(); ++other) {
    if (other == member()) continue;
    Tensors parts;
    for (std::size_t i = 0; i < whole.size(); ++i)
      parts.push_back(
          part_of(bits.at(i), {other, members()}).view(whole[i].scalar_type()));
    take_parts(whole, other, parts);
  }
}

void Group::start_share(Tensors mine, const Peers& peers) {
  const at::NoGradGuard no_grad;
  shared_ = std::move(mine);
  from_ = peers.from;
  Tensors places;
  for (const at::Tensor& tensor : shared_) {
    places.emplace_back();
    if (!tensor.defined()) continue;
    const at::ScalarType type = bits_of(tensor.scalar_type());
    places.back() =
        at::zeros({members(), tensor.numel()}, tensor.options().dtype(type));
    places.back()
        .select(0, member() - 1)
        .copy_(tensor.contiguous().reshape({-1}).view(type));
  }
  start_sum(std::move(places));
}

std::vector<Tensors> Group::finish_share() {
  const at::NoGradGuard no_grad;
  const Tensors places = finish_sum();
  std::vector<Tensors> all;
  for (const int other : from_) {
    Tensors theirs;
    for (std::size_t i = 0; i < shared_.size(); ++i) {
      theirs.emplace_back();
      if (!shared_[i].defined()) continue;
      theirs.back() = at::empty_like(shared_[i]);
      theirs.back().copy_(places.at(i)
                              .select(0, other - 1)
                              .view(shared_[i].scalar_type())
                              .reshape(shared_[i].sizes()));
    }
    all.push_back(std::move(theirs));
  }
  shared_.clear();
  return all;
}

void Group::start_swap(Tensors /*to_each*/) {
  throw InternalError("replica {}: its group only sums", member());
}

Tensors Group::finish_swap() {
  throw InternalError("replica {}: its group only sums", member());
}

std::shared_ptr<SharedWeights> Group::shared_weights() {
  throw InternalError("replica {}: its group has no memory in common",
                      member());
}

void Group::take_parts(const Tensors& whole, int other,
                       const Tensors& parts) const {
  const Tensors here = parts_of(whole, {other, members()});
  SLUICE_CHECK(parts.size() == here.size(), "{} parts of {} tensors",
               parts.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) here[i].copy_(parts[i]);
}

}  // namespace sluice
