#include "lib/replicas/taken_weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"

namespace sluice {

NamedTensors named_copies(const NamedTensors& tensors,
                          const std::string& prefix) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(prefix + name, tensor.detach().clone());
  return copies;
}

Tensors unnamed_copies(const NamedTensors& tensors) {
  Tensors copies;
  for (const auto& [name, tensor] : tensors) copies.push_back(tensor.clone());
  return copies;
}

void copy_into(const NamedTensors& into, const Tensors& from) {
  for (std::size_t i = 0; i < into.size(); ++i)
    into[i].second.copy_(from.at(i));
}

void check_size(const Push& push, std::size_t parameters) {
  if (push.tensors.size() != parameters)
    throw LinkError("replica {} brings {} tensors for {} parameters",
                    push.member, push.tensors.size(), parameters);
}

TakenWeights::TakenWeights(const NamedTensors& parameters, int members)
    : weights_(named_copies(parameters, "")) {
  for (int member = 1; member <= members; ++member)
    taken_.push_back(
        named_copies(parameters, fmt::format("taken.{}.", member)));
}

void TakenWeights::begin(const Tensors& weights) const {
  copy_into(weights_, weights);
  for (const NamedTensors& each : taken_) copy_into(each, weights);
}

Tensors TakenWeights::give(int member) const {
  copy_into(by(member), values_of(weights_));
  return unnamed_copies(weights_);
}

NamedTensors TakenWeights::state() const {
  NamedTensors all;
  for (const auto& [name, tensor] : weights_)
    all.emplace_back("centre." + name, tensor);
  for (const NamedTensors& each : taken_)
    all.insert(all.end(), each.begin(), each.end());
  return all;
}

}  // namespace sluice
