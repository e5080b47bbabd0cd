#include "modules/script_graph.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"

namespace sluice {
namespace {

namespace jit = torch::jit;
using Kind = ScriptInput::Kind;

/// A module that a value of the graph is, and its path from the top.
struct ModuleAt {
  std::string path;
  jit::Module module;
};
using ModuleValues = std::map<const jit::Value*, ModuleAt>;

/// Stands before the first node above a cut while calls are inlined.
c10::Symbol cut_mark() {
  return c10::Symbol::fromQualString("sluice::cut");
}

bool is_kind(const jit::Node* node, std::string_view name) {
  return name == node->kind().toQualString();
}

std::string path_below(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/// Whether a cut lies inside of the module.
bool has_cut_inside(const std::string& path,
                    const std::vector<std::string>& cuts) {
  if (path.empty()) return true;
  return std::any_of(cuts.begin(), cuts.end(), [&](const std::string& cut) {
    return cut.starts_with(path + ".");
  });
}

/// The module that a GetAttr reads of a known one.
void note_module(const jit::Node* node, ModuleValues& modules) {
  if (!is_kind(node, "prim::GetAttr") || !node->output()->type()->is_module())
    return;
  const auto owner = modules.find(node->input(0));
  if (owner == modules.end()) return;
  const std::string name = node->s(c10::attr::name);
  modules[node->output()] =
      ModuleAt{path_below(owner->second.path, name),
               owner->second.module.attr(name).toModule()};
}

/// All values that a node, or a node of its blocks, takes.
void collect_inputs(jit::Node* node, std::set<jit::Value*>& values) {
  values.insert(node->inputs().begin(), node->inputs().end());
  for (jit::Block* block : node->blocks()) {
    for (jit::Node* inner : block->nodes()) collect_inputs(inner, values);
    collect_inputs(block->return_node(), values);
  }
}

/// The forward of a module as one straight graph, marked where it is to be cut.
class MarkedForward {
 public:
  MarkedForward(const jit::Module& module, const std::vector<std::string>& cuts,
                const std::string& file)
      : module_(module), cuts_(cuts), file_(file) {
    take_forward();
    while (open_a_call()) {
    }
    mark();
    jit::Inline(*graph_);
  }

  const std::shared_ptr<jit::Graph>& graph() const { return graph_; }

 private:
  void take_forward() {
    const auto method = module_.find_method("forward");
    if (!method) throw UserError("{}: the module has no forward()", file_);
    method->function().ensure_defined();
    graph_ = method->graph()->copy();
    if (graph_->inputs().size() != 2 || graph_->outputs().size() != 1)
      throw UserError(
          "{}: forward() takes {} arguments; a model takes one tensor and "
          "gives one: script a module whose forward does",
          file_, graph_->inputs().size() - 1);
    note_self();
  }

  void note_self() {
    modules_.clear();
    modules_[graph_->inputs()[0]] = ModuleAt{"", module_};
  }

  /// Replaces a call of a module in which a cut lies by what it does; false:
  /// there is none any more.
  bool open_a_call() {
    note_self();
    for (jit::Node* node : graph_->nodes()) {
      note_module(node, modules_);
      const ModuleAt* called = called_by(node);
      if (called == nullptr || !has_cut_inside(called->path, cuts_)) continue;
      jit::GraphFunction* function = jit::tryToGraphFunction(node);
      if (function == nullptr) continue;
      function->ensure_defined();
      jit::inlineCallTo(node, function, function->graph().get());
      return true;
    }
    return false;
  }

  const ModuleAt* called_by(const jit::Node* node) const {
    if (!is_kind(node, "prim::CallMethod")) return nullptr;
    const auto found = modules_.find(node->input(0));
    return found == modules_.end() ? nullptr : &found->second;
  }

  void mark() {
    std::set<std::string> seen;
    std::vector<std::pair<jit::Node*, std::string>> marks;
    bool has_weights_below = false;
    for (jit::Node* node : graph_->nodes()) {
      const ModuleAt* called = called_by(node);
      if (called == nullptr || !seen.insert(called->path).second) continue;
      const bool has_weights = called->module.parameters().size() > 0;
      if (is_cut(*called, node, has_weights && has_weights_below))
        marks.emplace_back(node, called->path);
      has_weights_below = has_weights_below || has_weights;
    }
    for (const std::string& cut : cuts_)
      if (!seen.contains(cut)) refuse_unknown(cut, seen);
    for (const auto& [node, path] : marks) {
      jit::Node* mark = graph_->create(cut_mark(), /*num_outputs=*/0);
      mark->s_(c10::attr::name, path);
      mark->insertBefore(node);
    }
  }

  bool is_cut(const ModuleAt& called, jit::Node* node, bool by_default) const {
    if (cuts_.empty()) return by_default && passing(node).size() == 1;
    if (std::find(cuts_.begin(), cuts_.end(), called.path) == cuts_.end())
      return false;
    check_something_below(called.path, node);
    check_one_passes(called.path, node);
    return true;
  }

  bool is_free(const jit::Value* value) const {
    const jit::Node* node = value->node();
    return modules_.contains(value) || is_kind(node, "prim::Constant") ||
           (is_kind(node, "prim::GetAttr") &&
            modules_.contains(node->input(0)));
  }

  /// What is made below the node, and taken by it or above it.
  std::vector<jit::Value*> passing(jit::Node* node) const {
    std::set<jit::Value*> taken;
    for (jit::Node* each : graph_->nodes())
      if (each == node || !each->isBefore(node)) collect_inputs(each, taken);
    collect_inputs(graph_->return_node(), taken);
    std::vector<jit::Value*> found;
    for (jit::Value* value : taken) {
      jit::Node* maker = value->node();
      const bool is_below = maker == graph_->param_node() ||
                            (maker->owningBlock() == graph_->block() &&
                             maker != node && maker->isBefore(node));
      if (is_below && !is_free(value)) found.push_back(value);
    }
    return found;
  }

  void check_something_below(const std::string& cut, jit::Node* node) const {
    for (jit::Node* each : graph_->nodes()) {
      if (each == node) break;
      const auto outputs = each->outputs();
      if (outputs.empty() || !is_free(outputs.front())) return;
    }
    throw UserError(
        "model.cuts: nothing lies below '{}', with which the forward of {} "
        "begins; leave it out",
        cut, file_);
  }

  void check_one_passes(const std::string& cut, jit::Node* node) const {
    const std::vector<jit::Value*> values = passing(node);
    if (values.size() == 1 &&
        values[0]->type()->isSubtypeOf(*c10::TensorType::get()))
      return;
    std::vector<std::string> names;
    for (const jit::Value* value : values) names.push_back(value->debugName());
    throw UserError(
        "model.cuts: {} can't be cut below '{}': one tensor may pass a cut, "
        "and here these values do: {}; cut elsewhere",
        file_, cut, fmt::join(names, ", "));
  }

  [[noreturn]] void refuse_unknown(const std::string& cut,
                                   const std::set<std::string>& seen) const {
    std::vector<std::string> names;
    for (const std::string& name : seen)
      if (!name.empty()) names.push_back(name);
    throw UserError(
        "model.cuts: the forward of {} calls no module '{}' once for every "
        "sample{}; it calls: {}",
        file_, cut, perhaps(cut, names), joined(names));
  }

  const jit::Module& module_;
  const std::vector<std::string>& cuts_;
  const std::string& file_;
  std::shared_ptr<jit::Graph> graph_;
  ModuleValues modules_;
};

/// Whether a mode is written into the graph.
bool is_constant(const jit::Value* value) {
  return is_kind(value->node(), "prim::Constant");
}

/// Makes what a flat graph reads of its module inputs of the graph.
class Lowered {
 public:
  Lowered(jit::Graph& graph, const jit::Module& module, const std::string& file)
      : graph_(graph), file_(file) {
    modules_[graph.inputs()[0]] = ModuleAt{"", module};
    lower(*graph.block());
    std::reverse(module_nodes_.begin(), module_nodes_.end());
    for (jit::Node* node : module_nodes_) {
      check_unused(node->output());
      node->destroy();
    }
    check_unused(graph.inputs()[0]);
    graph.eraseInput(0);
  }

  /// By the value that it is in the graph.
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

  jit::Value* input_for(const ModuleAt& owner, const std::string& name,
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
                               is_constant(node->input(5)) &&
                               !node->input(3)->mustBeNone();
    if (is_fixed_norm || (is_dropout(node) && is_constant(node->input(2))))
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
class PartGraph {
 public:
  explicit PartGraph(const std::map<const jit::Value*, ScriptInput>& attributes)
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
    if (is_constant(value)) {
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
struct Stretch {
  std::string name = "input";
  std::vector<jit::Node*> nodes = {};
};

std::vector<Stretch> stretches_of(jit::Graph& graph) {
  std::vector<Stretch> stretches(1);
  for (jit::Node* node : graph.nodes()) {
    if (node->kind() == cut_mark()) {
      stretches.push_back({.name = node->s(c10::attr::name)});
    } else if (!is_kind(node, "prim::Constant")) {
      stretches.back().nodes.push_back(node);
    }
  }
  return stretches;
}

bool is_weight(const ScriptInput& input) {
  return input.kind == Kind::parameter || input.kind == Kind::buffer;
}

void check_has_one_owner(const std::vector<ScriptPart>& parts,
                         const std::string& file) {
  std::vector<std::pair<const ScriptInput*, const ScriptPart*>> seen;
  for (const ScriptPart& part : parts) {
    for (const ScriptInput& input : part.inputs) {
      if (!is_weight(input)) continue;
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
  const MarkedForward forward(module, cuts, file);
  const std::shared_ptr<jit::Graph>& graph = forward.graph();
  const Lowered lowered(*graph, module, file);
  const std::vector<Stretch> stretches = stretches_of(*graph);
  std::vector<ScriptPart> parts;
  jit::Value* output = graph->outputs()[0];
  for (auto it = stretches.rbegin(); it != stretches.rend(); ++it) {
    PartGraph part(lowered.inputs());
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
