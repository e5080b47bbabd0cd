#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>

#include <torch/nn/pimpl.h>

#include "lib/blocks/layer.h"
#include "modules/chain.h"

namespace sluice {

/// Maker of a layer of one's own: whatever can be called.
///
///   [] { return torch::nn::Linear(784, 256); }               a LibTorch module
///   [] { return std::make_shared<sluice::Dropout>(0.1); }    a Layer of ours
///   torch::relu                                              a plain function
///
/// A module keeps the weights that it was made with. Modules that draw from
/// LibTorch's process-wide generator (nn::Dropout) are refused: see
/// layer_from(). A factory must make the same layer each time, but for its
/// weights: it is called several times, under the thread rules of Network.
class LayerFactory {
 public:
  template <class Make>
  requires std::invocable<Make&> LayerFactory(
      Make make)  // NOLINT(google-explicit-constructor)
      : make_([make] { return to_layer(make()); }) {}

  template <class Function>
  requires std::invocable<Function&, const at::Tensor&> LayerFactory(
      Function function)  // NOLINT(google-explicit-constructor)
      : make_([function] {
          auto chain = std::make_shared<Chain>();
          chain->add(UnaryFunction(function));
          return chain;
        }) {}

  std::shared_ptr<Layer> operator()() const { return make_(); }

 private:
  template <class Module>
  static std::shared_ptr<Layer> to_layer(Module module) {
    if constexpr (std::convertible_to<Module, std::shared_ptr<Layer>>)
      return module;
    else
      return layer_from(std::move(module));
  }

  std::function<std::shared_ptr<Layer>()> make_;
};

}  // namespace sluice
