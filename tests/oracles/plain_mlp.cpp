#include "tests/oracles/plain_mlp.h"

#include <iterator>
#include <map>
#include <string>

#include <ATen/ATen.h>
#include <torch/autograd.h>

namespace sluice::plain_mlp {

Tensors copied(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors)
    copies.push_back(tensor.detach().clone());
  return copies;
}

Tensors weights_in(const Training& of, int replica) {
  const NamedTensors named = of.weights(replica);
  const std::map<std::string, at::Tensor> by_name(named.begin(), named.end());
  Tensors weights;
  for (const char* name : kParameters) weights.push_back(by_name.at(name));
  return copied(weights);
}

NamedTensors named(const Tensors& weights) {
  NamedTensors all;
  for (std::size_t i = 0; i < std::size(kParameters); ++i)
    all.emplace_back(kParameters[i], weights.at(i));
  return all;
}

Tensors gradients_at(const Tensors& weights, const Batch& batch) {
  Tensors leaves;
  for (const at::Tensor& weight : weights)
    leaves.push_back(weight.detach().clone().requires_grad_(true));
  at::Tensor values = batch.inputs.flatten(1);
  for (std::size_t i = 0; i < leaves.size(); i += 2) {
    values = at::linear(values, leaves[i], leaves[i + 1]);
    if (i + 2 < leaves.size()) values = at::relu(values);
  }
  return torch::autograd::grad({at::cross_entropy_loss(values, batch.labels)},
                               leaves);
}

SgdWeights::SgdWeights(const Tensors& first) : weights(copied(first)) {
  for (const at::Tensor& weight : weights)
    velocities.push_back(at::zeros_like(weight));
}

void SgdWeights::step(const Tensors& gradients, double rate) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    velocities[i].mul_(kMomentum).add_(gradients[i]);
    weights[i].sub_(velocities[i], rate);
  }
}

}  // namespace sluice::plain_mlp
