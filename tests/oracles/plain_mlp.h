#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/blocks/source.h"
#include "lib/tensors/tensors.h"
#include "tests/experiments/helpers/training.h"

/// An MLP of three linear layers and momentum SGD, in plain tensors, for
/// oracles of replicas that come to a centre.
namespace sluice::plain_mlp {

// Powers of two, whose products are exact, with or without fused
// multiply-adds.
inline constexpr double kRate = 0.0625;
inline constexpr double kMomentum = 0.5;

/// Weights and biases of the layers, in turns, by Sluice's names.
inline constexpr const char* kParameters[] = {
    "layers.0.linear.weight", "layers.0.linear.bias",
    "layers.1.linear.weight", "layers.1.linear.bias",
    "layers.2.linear.weight", "layers.2.linear.bias"};

Tensors copied(const Tensors& tensors);

/// Copies of the replica's weights, in the order of kParameters.
Tensors weights_in(const Training& of, int replica = 1);
/// With their names.
NamedTensors named(const Tensors& weights);

Tensors gradients_at(const Tensors& weights, const Batch& batch);

/// Weights of its own that momentum SGD steps.
struct SgdWeights {
  Tensors weights;
  Tensors velocities;

  explicit SgdWeights(const Tensors& first);
  void step(const Tensors& gradients, double rate = kRate);
};

/// A replica that has come to the centre.
struct Visit {
  std::size_t replica = 0;  ///< from 0
  std::int64_t turn = 0;
};

}  // namespace sluice::plain_mlp
