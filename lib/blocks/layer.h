#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include "lib/tensors/tensors.h"

namespace sluice {

class MaskDraws;

/// How the masks of dropouts are drawn; the number that configs have for it.
enum class Masks : std::uint8_t {
  generator = 1,  ///< by LibTorch's generator on the CPU, in order
  philox = 2,     ///< by Philox, each element by its index, on any device
};

/// What a forward is for. Passed explicitly, so that randomness never comes
/// from a process-wide generator.
struct Pass {
  std::uint64_t seed = 0;
  /// The training batch, whose masks a replay must meet again.
  std::int64_t batch = 0;
  /// The layer's place in the uncut model; set by whoever runs the layers.
  std::int64_t layer = 0;
  bool training = true;
  Masks masks = Masks::philox;
  /// Where the forward is captured in a graph: what is drawn before each
  /// replay, in place of what key() and generator() would give, which throw
  /// UserError.
  MaskDraws* draws = nullptr;

  /// The key of what is drawn for (seed, layer, batch, purpose).
  std::uint64_t key(std::string_view purpose) const;
  /// A generator with that key, on the CPU.
  at::Generator generator(std::string_view purpose) const;
};

/// A layer of the list that a model is, and the unit of a cut. Whether it
/// trains is set by the block (Module::train), not by the layer.
class Layer : public torch::nn::Module {
 public:
  /// Inputs and outputs as tuples; most layers have one of each. Must not write
  /// its inputs in place: they may be what a neighbour sent.
  virtual Tensors forward(const Tensors& inputs, const Pass& pass) = 0;
  /// Whether the layer has inverse().
  virtual bool is_reversible() const { return false; }
  /// The inputs of which a forward in that pass, with the present weights,
  /// makes `outputs`, but for rounding. Must not write `outputs`.
  virtual Tensors inverse(const Tensors& outputs, const Pass& pass);
  /// Sets the parameters from `key` alone, whatever was constructed before.
  /// The default is initialise_parameters().
  virtual void initialise(std::uint64_t key);
};

using Layers = std::vector<std::shared_ptr<Layer>>;

/// LibTorch's default distributions, drawn with a generator for each parameter
/// (key and the parameter's name): weights of 2 or more dimensions and their
/// biases uniform in +-1/sqrt(fan in); vectors called `weight` without such a
/// neighbour (norms) are 1, their biases 0.
void initialise_parameters(torch::nn::Module& module, std::uint64_t key);

/// Description of a layer: how to make it, and what is known of it before.
struct LayerSpec {
  /// A name for people: "conv 32->64 3x3". Need not be unique.
  std::string name;
  /// A new layer each time, on the CPU; its weights are set by initialise().
  std::function<std::shared_ptr<Layer>()> make;
  /// Multiply-adds of a forward, for one sample (a whole text): the static cost
  /// model that balances blocks.
  double flops = 0;
  /// Shape of the (first) output: [C], [C, H, W] or [T, C].
  SampleShape output;
  /// Makes this kind of layer for an input of another shape, with as many
  /// output channels and its own pools; its convolution goes in steps `stride`
  /// times as wide. Throws UserError for a shape that it can't take. Empty:
  /// there is only this one.
  std::function<LayerSpec(const SampleShape& input, std::int64_t stride)>
      for_input = {};
};

/// A model is a list of layers that can be cut between any two of them.
struct Model {
  std::vector<LayerSpec> layers;
  SampleSpec sample;
  /// Reason why every boundary must have the policy `backprop`; empty: it
  /// needn't.
  std::string needs_backprop = {};
  /// Where layers draw weights from LibTorch's process-wide generator: draws
  /// those of this seed once, for all that are made later, in the one thread
  /// that uses LibTorch then. Empty: layers draw by keys alone.
  std::function<void(std::uint64_t seed)> draw = {};
  /// Whether the model trains on pairs (Forward-Forward): the source gives
  /// inputs [N, 2, C], each sample with its label written into it and then with
  /// a wrong one, and labels that are all 0, the place of the right one.
  bool trains_on_pairs = false;
};

}  // namespace sluice
