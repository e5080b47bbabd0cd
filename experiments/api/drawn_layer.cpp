#include "experiments/api/drawn_layer.h"

#include <cstddef>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>

#include "lib/blocks/adapters.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {
namespace {

class DrawnLayer final : public Layer {
 public:
  /// Shares what the layer has under its own names, so that no prefix comes
  /// between.
  DrawnLayer(std::shared_ptr<Layer> layer, std::shared_ptr<LayerDraws> draws)
      : layer_(std::move(layer)), draws_(std::move(draws)) {
    for (const auto& item : layer_->named_parameters(/*recurse=*/false))
      register_parameter(item.key(), item.value(),
                         item.value().requires_grad());
    for (const auto& item : layer_->named_buffers(/*recurse=*/false))
      register_buffer(item.key(), item.value());
    for (const auto& item : layer_->named_children())
      register_module(item.key(), item.value());
  }

  void train(bool on) override {
    Layer::train(on);
    layer_->train(on);
  }
  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    return layer_->forward(inputs, pass);
  }
  bool is_reversible() const override { return layer_->is_reversible(); }
  Tensors inverse(const Tensors& outputs, const Pass& pass) override {
    return layer_->inverse(outputs, pass);
  }
  void initialise(std::uint64_t key) override {
    const NamedTensors drawn = draws_->with_key(key);
    copy_by_name(drawn,
                 without_missing_adapters(tensors_of_layer(*this), drawn),
                 "what its factory has made");
  }

 private:
  std::shared_ptr<Layer> layer_;
  std::shared_ptr<LayerDraws> draws_;
};

}  // namespace

LayerDraws::LayerDraws(LayerFactory factory,
                       std::shared_ptr<std::recursive_mutex> turn)
    : factory_(std::move(factory)), turn_(std::move(turn)) {}

std::shared_ptr<Layer> LayerDraws::make() const {
  const std::lock_guard lock(*turn_);
  return factory_();
}

NamedTensors LayerDraws::with_key(std::uint64_t key) {
  const std::lock_guard lock(*turn_);
  if (const auto found = drawn_.find(key); found != drawn_.end())
    return found->second;
  const GeneratorGuard kept;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(key);
  const std::shared_ptr<Layer> layer = factory_();
  layer->initialise(key);  // what plain modules have drawn they keep
  constexpr std::size_t kMostKept = 8;  // seeds of a sweep, say
  if (drawn_.size() >= kMostKept) drawn_.clear();
  return drawn_[key] = copies_of_tensors(tensors_of_layer(*layer));
}

std::shared_ptr<Layer> make_drawn_layer(std::shared_ptr<LayerDraws> draws) {
  std::shared_ptr<Layer> layer = draws->make();
  return std::make_shared<DrawnLayer>(std::move(layer), std::move(draws));
}

NamedTensors tensors_of_layer(const torch::nn::Module& layer) {
  NamedTensors all;
  for (const auto& item : layer.named_parameters())
    all.emplace_back(item.key(), item.value());
  for (const auto& item : layer.named_buffers())
    all.emplace_back(item.key(), item.value());
  return all;
}

NamedTensors copies_of_tensors(const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

}  // namespace sluice
