#include "lib/tensors/split_backward.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "lib/base/error.h"
#include "lib/tensors/gradients.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

Edge edge_of(const at::Tensor& tensor) {
  return torch::autograd::impl::gradient_edge(tensor);
}

/// The nodes below some, each after those that it leads to.
std::vector<Node*> in_order(const std::vector<Node*>& from) {
  std::vector<Node*> order;
  std::set<Node*> seen;
  std::vector<std::pair<Node*, std::size_t>> path;
  const auto enter = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) path.emplace_back(node, 0);
  };
  for (Node* node : from) {
    enter(node);
    while (!path.empty()) {
      Node* const last = path.back().first;
      const std::size_t next = path.back().second++;
      if (next < last->next_edges().size()) {
        enter(last->next_edges()[next].function.get());
      } else {
        order.push_back(last);
        path.pop_back();
      }
    }
  }
  return order;
}

/// What arrives at a node while it is armed: once, in the first half.
struct NodeGradients {
  bool is_armed = false;
  Tensors gradients = {};
};

class Capture final : public torch::autograd::FunctionPreHook {
 public:
  explicit Capture(std::shared_ptr<NodeGradients> arrived)
      : arrived_(std::move(arrived)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    if (arrived_->is_armed) arrived_->gradients = gradients;
    return gradients;
  }

 private:
  std::shared_ptr<NodeGradients> arrived_;
};

/// A node that leads to the inputs, and beside them to parameters that no other
/// node leads to but by it.
struct Branch {
  decltype(Edge::function) node = {};
  std::shared_ptr<NodeGradients> arrived = {};
  std::vector<std::size_t> parameters = {};  ///< indices
};

/// The nodes from which a target can be reached.
std::set<Node*> leading_to(const std::vector<Node*>& order,
                           const std::set<Node*>& targets) {
  std::set<Node*> leading;
  for (Node* node : order) {
    bool leads = targets.contains(node);
    for (const Edge& next : node->next_edges())
      leads = leads || leading.contains(next.function.get());
    if (leads) leading.insert(node);
  }
  return leading;
}

std::set<Node*> nodes_of(const Tensors& leaves) {
  std::set<Node*> nodes;
  for (const at::Tensor& leaf : leaves)
    if (leaf.requires_grad()) nodes.insert(edge_of(leaf).function.get());
  return nodes;
}

}  // namespace

struct SplitBackward::Branches {
  std::vector<Branch> all;

  void arm(bool is_armed) {
    for (Branch& branch : all) branch.arrived->is_armed = is_armed;
  }
};

namespace {

/// Whether the model has hooks at the node: they would run in both halves.
bool is_hooked(Node& node) {
  const auto is_ours = [](const auto& hook) {
    return dynamic_cast<const Capture*>(hook.get()) != nullptr;
  };
  return !node.tensor_pre_hooks().empty() ||
         !std::all_of(node.pre_hooks().begin(), node.pre_hooks().end(),
                      is_ours);
}

/// The branches of a graph; nothing where one has hooks, where a parameter is
/// on two of them, or on a way that the inputs are not on.
std::optional<std::vector<Branch>> branches_of(const Tensors& outputs,
                                               const Tensors& inputs,
                                               const Tensors& parameters) {
  std::vector<Node*> roots;
  for (const at::Tensor& output : outputs)
    roots.push_back(edge_of(output).function.get());
  const std::vector<Node*> order = in_order(roots);
  const std::set<Node*> main = leading_to(order, nodes_of(inputs));
  for (Node* root : roots)
    if (!main.contains(root)) return std::nullopt;
  std::map<Node*, std::size_t> index;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].requires_grad())
      index.emplace(edge_of(parameters[i]).function.get(), i);
  std::vector<Branch> branches;
  std::set<std::size_t> found;
  for (Node* node : order) {
    if (!main.contains(node)) continue;
    std::vector<Node*> beside;
    for (const Edge& next : node->next_edges())
      if (next.is_valid() && !main.contains(next.function.get()))
        beside.push_back(next.function.get());
    Branch branch;
    for (Node* below : in_order(beside)) {
      const auto parameter = index.find(below);
      if (parameter == index.end()) continue;
      if (!found.insert(parameter->second).second) return std::nullopt;
      branch.parameters.push_back(parameter->second);
    }
    if (branch.parameters.empty()) continue;
    if (is_hooked(*node)) return std::nullopt;
    branch.node = node->getptr();
    branch.arrived = std::make_shared<NodeGradients>();
    branches.push_back(std::move(branch));
  }
  for (const Branch& branch : branches)
    branch.node->add_pre_hook(std::make_unique<Capture>(branch.arrived));
  return branches;
}

void take_back(const Branch& branch, const Tensors& parameters, bool keep_graph,
               Tensors& gradients) {
  torch::autograd::edge_list roots;
  torch::autograd::variable_list arrived;
  for (std::size_t i = 0; i < branch.arrived->gradients.size(); ++i) {
    if (!branch.arrived->gradients[i].defined()) continue;
    roots.emplace_back(branch.node, static_cast<std::uint32_t>(i));
    arrived.push_back(branch.arrived->gradients[i]);
  }
  if (roots.empty()) return;
  torch::autograd::edge_list ends;
  for (const std::size_t i : branch.parameters)
    ends.push_back(edge_of(parameters[i]));
  const Tensors found = torch::autograd::Engine::get_default_engine().execute(
      roots, arrived, keep_graph, /*create_graph=*/false,
      /*accumulate_grad=*/false, ends);
  for (std::size_t i = 0; i < found.size(); ++i)
    gradients[branch.parameters[i]] = found[i];
}

}  // namespace

SplitBackward::SplitBackward(Tensors outputs, Tensors inputs,
                             Tensors parameters)
    : outputs_(std::move(outputs)),
      inputs_(std::move(inputs)),
      parameters_(std::move(parameters)) {
  if (auto found = branches_of(outputs_, inputs_, parameters_))
    branches_ = std::make_unique<Branches>(Branches{std::move(*found)});
}

SplitBackward::~SplitBackward() = default;
SplitBackward::SplitBackward(SplitBackward&&) noexcept = default;
SplitBackward& SplitBackward::operator=(SplitBackward&&) noexcept = default;

Tensors SplitBackward::at_inputs(const Tensors& signal) {
  signal_ = signal;
  if (branches_) branches_->arm(true);
  Tensors gradients = gradients_at(inputs_, outputs_, signal, true);
  if (branches_) branches_->arm(false);
  return gradients;
}

Tensors SplitBackward::at_parameters(bool keep_graph) {
  if (!branches_)
    return gradients_at(parameters_, outputs_, signal_, keep_graph);
  const FullPrecisionScope full_precision;
  Tensors gradients(parameters_.size());
  for (const Branch& branch : branches_->all)
    take_back(branch, parameters_, keep_graph, gradients);
  return gradients;
}

}  // namespace sluice
