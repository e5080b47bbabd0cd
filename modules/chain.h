#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/pimpl.h>

#include "lib/blocks/layer.h"

namespace sluice {

/// A plain LibTorch module that maps one tensor to one.
template <class Module>
concept UnaryModule = std::derived_from<Module, torch::nn::Module> &&
                      !std::derived_from<Module, Layer> &&
                      requires(Module & module, at::Tensor input) {
  { module.forward(input) } -> std::convertible_to<at::Tensor>;
};

using UnaryFunction = std::function<at::Tensor(const at::Tensor&)>;

/// The pass of a member of a layer: it draws its randomness under its name.
Pass member_pass(Pass pass, std::string_view name);

/// Layers and plain modules one after another, as one layer: an entry of a
/// model's list. The name under which a member is added is the first part of
/// its parameters' names: "linear" gives "linear.weight". A member draws its
/// randomness under its name, so two dropouts in a chain have two masks.
class Chain final : public Layer {
 public:
  void add(const std::string& name, std::shared_ptr<Layer> layer);
  /// Throws UserError for modules that draw from LibTorch's process-wide
  /// generator (nn::Dropout and its kind), with the name of ours.
  template <UnaryModule Module>
  void add(const std::string& name, std::shared_ptr<Module> module) {
    add_plain(name, module,
              [module](const at::Tensor& x) { return module->forward(x); });
  }
  template <UnaryModule Module>
  void add(const std::string& name, torch::nn::ModuleHolder<Module> module) {
    add(name, module.ptr());
  }
  /// Something without parameters and randomness. Must not work in place.
  void add(UnaryFunction function);

  Tensors forward(const Tensors& inputs, const Pass& pass) override;
  /// Layers set their own weights, plain modules by initialise_parameters().
  void initialise(std::uint64_t key) override;

 private:
  using Step = std::function<Tensors(const Tensors&, const Pass&)>;

  void add_plain(const std::string& name,
                 std::shared_ptr<torch::nn::Module> module,
                 UnaryFunction forward);

  std::vector<Step> steps_;
};

/// A plain module as a layer, with the module's own parameter names.
/// initialise() keeps the weights that the module was made with: LibTorch and
/// its users know their distribution better than a rule of ours. They come from
/// LibTorch's process-wide generator, so a program that wants the same weights
/// each time seeds it before it makes the layer; other processes get
/// the weights from a checkpoint. Throws UserError as Chain::add does.
std::shared_ptr<Layer> layer_from(std::shared_ptr<torch::nn::Module> module,
                                  UnaryFunction forward);

template <UnaryModule Module>
std::shared_ptr<Layer> layer_from(std::shared_ptr<Module> module) {
  return layer_from(
      module, [module](const at::Tensor& x) { return module->forward(x); });
}

template <UnaryModule Module>
std::shared_ptr<Layer> layer_from(torch::nn::ModuleHolder<Module> module) {
  return layer_from(module.ptr());
}

}  // namespace sluice
