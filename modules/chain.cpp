#include "modules/chain.h"

#include <string_view>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

void check_is_one(const Tensors& inputs) {
  SLUICE_CHECK(inputs.size() == 1, "a plain module takes one tensor, not {}",
               inputs.size());
}

/// Whether a module draws from the process-wide generator:
/// "torch::nn::Dropout2dImpl" and its kind, RReLU, FractionalMaxPool.
bool draws_from_process_generator(std::string_view type) {
  return type.starts_with("torch::nn::") &&
         (type.find("Dropout") != type.npos ||
          type.find("RReLU") != type.npos ||
          type.find("FractionalMaxPool") != type.npos);
}

void refuse_hidden_randomness(const torch::nn::Module& module) {
  for (const auto& part : module.modules()) {
    if (!draws_from_process_generator(part->name())) continue;
    throw UserError(
        "{} draws from the process-wide generator, so its numbers would change "
        "with the cut; use sluice::Dropout (modules/dropout.h), or a Layer "
        "that draws from Pass::generator",
        part->name());
  }
}

class PlainLayer final : public Layer {
 public:
  /// Shares the module's parameters, buffers and children under their own
  /// names, so that no prefix comes between.
  PlainLayer(std::shared_ptr<torch::nn::Module> module, UnaryFunction forward)
      : module_(std::move(module)), forward_(std::move(forward)) {
    for (const auto& item : module_->named_parameters(/*recurse=*/false)) {
      register_parameter(item.key(), item.value(),
                         item.value().requires_grad());
    }
    for (const auto& item : module_->named_buffers(/*recurse=*/false)) {
      register_buffer(item.key(), item.value());
    }
    for (const auto& item : module_->named_children()) {
      register_module(item.key(), item.value());
    }
  }

  void train(bool on) override {
    Layer::train(on);
    module_->train(on);
  }

  void initialise(std::uint64_t /*key*/) override {}

  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    check_is_one(inputs);
    return {forward_(inputs.front())};
  }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  UnaryFunction forward_;
};

}  // namespace

Pass member_pass(Pass pass, std::string_view name) {
  pass.seed = random_key({pass.seed, key_part(name)});
  return pass;
}

void Chain::add(const std::string& name, std::shared_ptr<Layer> layer) {
  register_module(name, layer);
  steps_.emplace_back([layer, name](const Tensors& inputs, const Pass& pass) {
    return layer->forward(inputs, member_pass(pass, name));
  });
}

void Chain::add(UnaryFunction function) {
  steps_.emplace_back(
      [function = std::move(function)](const Tensors& inputs, const Pass&) {
        check_is_one(inputs);
        return Tensors{function(inputs.front())};
      });
}

void Chain::add_plain(const std::string& name,
                      std::shared_ptr<torch::nn::Module> module,
                      UnaryFunction forward) {
  refuse_hidden_randomness(*module);
  register_module(name, std::move(module));
  add(std::move(forward));
}

Tensors Chain::forward(const Tensors& inputs, const Pass& pass) {
  Tensors values = inputs;
  for (const Step& step : steps_) values = step(values, pass);
  return values;
}

void Chain::initialise(std::uint64_t key) {
  for (const auto& item : named_children()) {
    const std::uint64_t own_key = random_key({key, key_part(item.key())});
    if (auto layer = std::dynamic_pointer_cast<Layer>(item.value())) {
      layer->initialise(own_key);
    } else {
      initialise_parameters(*item.value(), own_key);
    }
  }
}

std::shared_ptr<Layer> layer_from(std::shared_ptr<torch::nn::Module> module,
                                  UnaryFunction forward) {
  refuse_hidden_randomness(*module);
  return std::make_shared<PlainLayer>(std::move(module), std::move(forward));
}

}  // namespace sluice
