#include "modules/script/script_forward.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/passes/inliner.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "modules/script/script_values.h"

namespace sluice {
namespace {

namespace jit = torch::jit;

/// Whether a cut lies inside of the module.
bool has_cut_inside(const std::string& path,
                    const std::vector<std::string>& cuts) {
  if (path.empty()) return true;
  return std::any_of(cuts.begin(), cuts.end(), [&](const std::string& cut) {
    return cut.starts_with(path + ".");
  });
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

  std::shared_ptr<jit::Graph> graph() && { return std::move(graph_); }

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
    modules_[graph_->inputs()[0]] = PlacedModule{"", module_};
  }

  /// Replaces a call of a module in which a cut lies by what it does; false:
  /// there is none any more.
  bool open_a_call() {
    note_self();
    for (jit::Node* node : graph_->nodes()) {
      note_module(node, modules_);
      const PlacedModule* called = called_by(node);
      if (called == nullptr || !has_cut_inside(called->path, cuts_)) continue;
      jit::GraphFunction* function = jit::tryToGraphFunction(node);
      if (function == nullptr) continue;
      function->ensure_defined();
      jit::inlineCallTo(node, function, function->graph().get());
      return true;
    }
    return false;
  }

  const PlacedModule* called_by(const jit::Node* node) const {
    if (!is_kind(node, "prim::CallMethod")) return nullptr;
    const auto found = modules_.find(node->input(0));
    return found == modules_.end() ? nullptr : &found->second;
  }

  void mark() {
    std::set<std::string> seen;
    std::vector<std::pair<jit::Node*, std::string>> marks;
    bool has_weights_below = false;
    for (jit::Node* node : graph_->nodes()) {
      const PlacedModule* called = called_by(node);
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

  bool is_cut(const PlacedModule& called, jit::Node* node,
              bool by_default) const {
    if (cuts_.empty()) return by_default && is_one_tensor(passing(node));
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

  /// Values that are made below the node, and taken by it or above it.
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

  static bool is_one_tensor(const std::vector<jit::Value*>& values) {
    return values.size() == 1 &&
           values[0]->type()->isSubtypeOf(*c10::TensorType::get());
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
    if (is_one_tensor(values)) return;
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

}  // namespace

std::shared_ptr<torch::jit::Graph> marked_forward(
    const torch::jit::Module& module, const std::vector<std::string>& cuts,
    const std::string& file) {
  return MarkedForward(module, cuts, file).graph();
}

}  // namespace sluice
