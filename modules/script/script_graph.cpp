#include "modules/script/script_graph.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <torch/csrc/jit/ir/ir.h>

#include "lib/base/error.h"
#include "modules/script/script_forward.h"
#include "modules/script/script_values.h"

namespace sluice {
namespace {

namespace jit = torch::jit;
using Kind = ScriptInput::Kind;

/// Whether a mode is written into the graph.
bool is_constant_of_script(const jit::Value* value) {
  return is_kind(value->node(), "prim::Constant");
}

/// Makes what a flat graph reads of its module inputs of the graph.
class LoweredScript {
 public:
  LoweredScript(jit::Graph& graph, const jit::Module& module,
                const std::string& file)
      : graph_(graph), file_(file) {
    modules_[graph.inputs()[0]] = PlacedModule{"", module};
    lower(*graph.block());
    std::reverse(module_nodes_.begin(), module_nodes_.end());
    for (jit::Node* node : module_nodes_) {
      check_unused(node->output());
      node->destroy();
    }
    check_unused(graph.inputs()[0]);
    graph.eraseInput(0);
  }

  /// Inputs by their values in the graph.
  const std::map<const jit::Value*, ScriptInput>& inputs() const {
    return inputs_;
  }

 private:
  void lower(jit::Block& block) {
    for (auto it = block.nodes().begin(); it != block.nodes().end();) {
      jit::Node* node = *it;
      ++it;
      if (is_kind(node, "prim::GetAttr")) {
        lower_attribute(node);
        continue;
      }
      check(node);
      for (jit::Block* inner : node->blocks()) lower(*inner);
      replace_dropout(node);
    }
  }

  void lower_attribute(jit::Node* node) {
    const auto owner = modules_.find(node->input(0));
    if (owner == modules_.end()) return;
    if (node->output()->type()->is_module()) {
      note_module(node, modules_);
      module_nodes_.push_back(node);
      return;
    }
    node->output()->replaceAllUsesWith(
        input_for(owner->second, node->s(c10::attr::name), node));
    node->destroy();
  }

  jit::Value* input_for(const PlacedModule& owner, const std::string& name,
                        jit::Node* node) {
    const std::string path = path_below(owner.path, name);
    const auto found = by_path_.find(path);
    if (found != by_path_.end()) return found->second;
    jit::Value* value = graph_.addInput();
    value->setType(node->output()->type());
    by_path_[path] = value;
    inputs_[value] = ScriptInput{.kind = kind_of(owner.module, name),
                                 .path = path,
                                 .value = owner.module.attr(name)};
    return value;
  }

  static Kind kind_of(const jit::Module& owner, const std::string& name) {
    const c10::IValue value = owner.attr(name);
    if (name == "training" && value.isBool()) return Kind::mode;
    const auto slot = owner.type()->findAttributeSlot(name);
    if (!slot || !value.isTensor()) return Kind::constant;
    if (owner.type()->is_parameter(*slot) && value.toTensor().requires_grad())
      return Kind::parameter;
    if (owner.type()->is_parameter(*slot) || owner.type()->is_buffer(*slot))
      return Kind::buffer;
    return Kind::constant;
  }

  void check(const jit::Node* node) const {
    if (is_kind(node, "prim::SetAttr"))
      throw UserError(
          "{}: forward() sets the attribute '{}', so that a copy of it would "
          "go on otherwise; keep such state in a buffer that it writes in "
          "place",
          file_, node->s(c10::attr::name));
    if (is_kind(node, "prim::CallMethod") || is_kind(node, "prim::fork"))
      throw UserError(
          "{}: forward() has a call that can't be inlined ({}, of an interface "
          "or a fork); call modules by their names",
          file_, node->kind().toQualString());
    check_mode(node);
  }

  void check_mode(const jit::Node* node) const {
    const bool is_fixed_norm = is_kind(node, "aten::batch_norm") &&
                               is_constant_of_script(node->input(5)) &&
                               !node->input(3)->mustBeNone();
    if (is_fixed_norm ||
        (is_dropout(node) && is_constant_of_script(node->input(2))))
      throw UserError(
          "{}: the mode of a {} is written into its graph, as a trace does "
          "it: write the file with torch.jit.script(model), not "
          "torch.jit.trace",
          file_, node->kind().toQualString());
  }

  static bool is_dropout(const jit::Node* node) {
    return is_kind(node, "aten::dropout") || is_kind(node, "aten::dropout_") ||
           is_kind(node, "aten::feature_dropout") ||
           is_kind(node, "aten::feature_dropout_");
  }

  void replace_dropout(jit::Node* node) {
    if (!is_dropout(node)) return;
    const std::string name = node->kind().toUnqualString();
    jit::Node* ours =
        graph_.create(c10::Symbol::fromQualString("sluice::" + name),
                      node->inputs(), /*num_outputs=*/1);
    ours->output()->setType(node->output()->type());
    ours->insertBefore(node);
    node->output()->replaceAllUsesWith(ours->output());
    node->destroy();
  }

  void check_unused(const jit::Value* value) const {
    if (!value->hasUses()) return;
    throw UserError(
        "{}: forward() hands on the module '{}' as a value ({}); call modules "
        "by their names",
        file_, modules_.at(value).path,
        value->uses().front().user->kind().toQualString());
  }

  jit::Graph& graph_;
  const std::string& file_;
  ModuleValues modules_;
  std::vector<jit::Node*> module_nodes_;
  std::map<std::string, jit::Value*> by_path_;
  std::map<const jit::Value*, ScriptInput> inputs_;
};

/// Copies a stretch of the flat graph.
class ScriptPartGraph {
 public:
  explicit ScriptPartGraph(
      const std::map<const jit::Value*, ScriptInput>& attributes)
      : attributes_(attributes), from_below_(graph_->addInput()) {}

  void add(jit::Node* node) {
    jit::Node* copy = graph_->createClone(
        node, [this](jit::Value* value) { return copy_of(value); });
    graph_->appendNode(copy);
    for (std::size_t i = 0; i < node->outputs().size(); ++i)
      copies_[node->outputs()[i]] = copy->outputs()[i];
  }

  /// Ends it; the value that it takes from below, nullptr: none.
  jit::Value* finish(jit::Value* output) {
    graph_->registerOutput(copy_of(output));
    return below_;
  }

  ScriptPart part(const std::string& name, const jit::Module& module) && {
    return {.name = name,
            .code = jit::Code(graph_, "forward"),
            .inputs = std::move(inputs_),
            .module = module};
  }

 private:
  jit::Value* copy_of(jit::Value* value) {
    const auto found = copies_.find(value);
    if (found != copies_.end()) return found->second;
    jit::Value* copy = from_outside(value);
    copies_[value] = copy;
    return copy;
  }

  jit::Value* from_outside(jit::Value* value) {
    const auto attribute = attributes_.find(value);
    if (attribute != attributes_.end()) {
      jit::Value* input = graph_->addInput();
      input->setType(value->type());
      inputs_.push_back(attribute->second);
      return input;
    }
    if (is_constant_of_script(value)) {
      jit::Node* constant = graph_->createClone(
          value->node(), [](jit::Value* none) { return none; });
      return graph_->appendNode(constant)->output();
    }
    SLUICE_CHECK(below_ == nullptr || below_ == value,
                 "both '{}' and '{}' pass a cut", below_->debugName(),
                 value->debugName());
    below_ = value;
    return from_below_;
  }

  const std::map<const jit::Value*, ScriptInput>& attributes_;
  std::shared_ptr<jit::Graph> graph_ = std::make_shared<jit::Graph>();
  jit::Value* from_below_;
  jit::Value* below_ = nullptr;
  std::map<const jit::Value*, jit::Value*> copies_;
  std::vector<ScriptInput> inputs_;
};

/// The nodes from one mark to the next.
struct ScriptStretch {
  std::string name = "input";
  std::vector<jit::Node*> nodes = {};
};

std::vector<ScriptStretch> stretches_of(jit::Graph& graph) {
  std::vector<ScriptStretch> stretches(1);
  for (jit::Node* node : graph.nodes()) {
    if (node->kind() == cut_mark()) {
      stretches.push_back({.name = node->s(c10::attr::name)});
    } else if (!is_kind(node, "prim::Constant")) {
      stretches.back().nodes.push_back(node);
    }
  }
  return stretches;
}

bool is_script_weight(const ScriptInput& input) {
  return input.kind == Kind::parameter || input.kind == Kind::buffer;
}

void check_has_one_owner(const std::vector<ScriptPart>& parts,
                         const std::string& file) {
  std::vector<std::pair<const ScriptInput*, const ScriptPart*>> seen;
  for (const ScriptPart& part : parts) {
    for (const ScriptInput& input : part.inputs) {
      if (!is_script_weight(input)) continue;
      for (const auto& [other, owner] : seen) {
        if (!other->value.toTensor().is_alias_of(input.value.toTensor()))
          continue;
        if (other->path == input.path)
          throw UserError(
              "model.cuts: '{}' of {} is used below and above the cut at '{}'; "
              "cut elsewhere",
              input.path, file, part.name);
        throw UserError(
            "{}: '{}' and '{}' are one tensor; weights that are tied can't be "
            "trained in parts",
            file, other->path, input.path);
      }
      seen.emplace_back(&input, &part);
    }
  }
}

}  // namespace

std::vector<ScriptPart> cut_script(const torch::jit::Module& module,
                                   const std::vector<std::string>& cuts,
                                   const std::string& file) {
  const std::shared_ptr<jit::Graph> graph = marked_forward(module, cuts, file);
  const LoweredScript lowered(*graph, module, file);
  const std::vector<ScriptStretch> stretches = stretches_of(*graph);
  std::vector<ScriptPart> parts;
  jit::Value* output = graph->outputs()[0];
  for (auto it = stretches.rbegin(); it != stretches.rend(); ++it) {
    ScriptPartGraph part(lowered.inputs());
    for (jit::Node* node : it->nodes) part.add(node);
    output = part.finish(output);
    if (output == nullptr)
      throw UserError("{}: what forward() gives does not depend on its input",
                      file);
    parts.push_back(std::move(part).part(it->name, module));
  }
  std::reverse(parts.begin(), parts.end());
  check_has_one_owner(parts, file);
  return parts;
}

}  // namespace sluice
