#include "modules/script/script_layer.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "modules/script/script_graph.h"
#include "modules/script/scripted_dropout.h"

namespace sluice {
namespace {

/// The module in the tree below `root` that owns the last part of a dotted
/// path, and that part.
std::pair<torch::nn::Module*, std::string> owner_of(const std::string& path,
                                                    torch::nn::Module& root) {
  torch::nn::Module* owner = &root;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != path.npos;
       dot = path.find('.', begin)) {
    const std::string name = path.substr(begin, dot - begin);
    const auto children = owner->named_children();
    owner = children.contains(name)
                ? children[name].get()
                : owner
                      ->register_module(
                          name, std::make_shared<torch::nn::Module>(name))
                      .get();
    begin = dot + 1;
  }
  return {owner, path.substr(begin)};
}

class ScriptLayer final : public Layer {
 public:
  ScriptLayer(std::shared_ptr<const ScriptPart> part, bool drawn)
      : part_(std::move(part)), drawn_(drawn) {
    for (const ScriptInput& input : part_->inputs)
      arguments_.push_back(own(input));
  }

  void initialise(std::uint64_t key) override {
    if (drawn_) Layer::initialise(key);
  }

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    SLUICE_CHECK(inputs.size() == 1, "a scripted part takes one tensor, not {}",
                 inputs.size());
    ScriptedDropouts dropouts(pass);
    std::vector<c10::IValue> stack = {inputs.front()};
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      stack.push_back(part_->inputs[i].kind == ScriptInput::Kind::mode
                          ? c10::IValue(is_training())
                          : arguments_[i]);
    torch::jit::InterpreterState(part_->code).run(stack);
    if (stack.size() != 1 || !stack.front().isTensor())
      throw UserError(
          "the scripted part '{}' gives something else than one "
          "tensor",
          part_->name);
    return {stack.front().toTensor()};
  }

 private:
  /// The tensor that is registered is the one that the graph gets: what is set
  /// in one is set in the other.
  c10::IValue own(const ScriptInput& input) {
    using Kind = ScriptInput::Kind;
    if (input.kind != Kind::parameter && input.kind != Kind::buffer)
      return input.value;
    const at::NoGradGuard no_grad;
    at::Tensor copy = input.value.toTensor().detach().clone();
    const auto [owner, name] = owner_of(input.path, *this);
    if (input.kind == Kind::parameter)
      return owner->register_parameter(name, std::move(copy));
    return owner->register_buffer(name, std::move(copy));
  }

  std::shared_ptr<const ScriptPart> part_;
  bool drawn_;
  std::vector<c10::IValue> arguments_;  // in the order of part_->inputs
};

}  // namespace

std::shared_ptr<Layer> make_script_layer(std::shared_ptr<const ScriptPart> part,
                                         bool drawn) {
  return std::make_shared<ScriptLayer>(std::move(part), drawn);
}

}  // namespace sluice
