#include "modules/script/script_operators.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include "modules/script/script_refusal.h"

namespace sluice {
namespace {

namespace jit = torch::jit;
using OpSet = std::set<std::string, std::less<>>;

/// What the language itself is made of ("prim"). Nothing that prints, calls
/// Python or another process, or is made by optimizations.
const OpSet& language_operators() {
  static const OpSet names = {"Constant",
                              "GetAttr",
                              "SetAttr",
                              "hasattr",
                              "If",
                              "Loop",
                              "LoopContinue",
                              "Closure",
                              "fork",
                              "Enter",
                              "Exit",
                              "CallFunction",
                              "CallMethod",
                              "CreateObject",
                              "ListConstruct",
                              "ListUnpack",
                              "TupleConstruct",
                              "TupleIndex",
                              "TupleSlice",
                              "TupleUnpack",
                              "DictConstruct",
                              "ModuleContainerIndex",
                              "StringIndex",
                              "EnumName",
                              "EnumValue",
                              "Uninitialized",
                              "RaiseException",
                              "annotate",
                              "isinstance",
                              "unchecked_cast",
                              "unchecked_unwrap_optional",
                              "Bool",
                              "Float",
                              "Int",
                              "ImplicitTensorToNum",
                              "NumToTensor",
                              "rangelist",
                              "tolist",
                              "abs",
                              "max",
                              "min",
                              "data",
                              "device",
                              "dtype",
                              "index",
                              "itemsize",
                              "layout",
                              "name",
                              "nbytes",
                              "requires_grad",
                              "shape",
                              "type",
                              "is_cpu",
                              "is_cuda",
                              "is_ipu",
                              "is_maia",
                              "is_meta",
                              "is_mkldnn",
                              "is_mps",
                              "is_mtia",
                              "is_nested",
                              "is_quantized",
                              "is_sparse",
                              "is_sparse_csr",
                              "is_vulkan",
                              "is_xla",
                              "is_xpu"};
  return names;
}

/// Among ATen's names with one "_" before them, LibTorch's internals, those
/// that torch.jit.script writes for what torch.nn and the language have.
const OpSet& internals_in_scripts() {
  static const OpSet names = {"_addmm_activation",
                              "_assert_tensor_metadata",
                              "_batch_norm_impl_index",
                              "_cast_Byte",
                              "_cast_Char",
                              "_cast_Double",
                              "_cast_Float",
                              "_cast_Half",
                              "_cast_Int",
                              "_cast_Long",
                              "_cast_Short",
                              "_convolution",
                              "_convolution_mode",
                              "_dim_arange",
                              "_get_tracing_state",
                              "_infer_size",
                              "_is_zerotensor",
                              "_list_to_tensor",
                              "_log_softmax",
                              "_native_multi_head_attention",
                              "_ncf_unsqueeze",
                              "_ncf_view",
                              "_nested_tensor_from_mask",
                              "_nested_tensor_from_mask_left_aligned",
                              "_no_grad_embedding_renorm_",
                              "_no_grad_fill_",
                              "_no_grad_normal_",
                              "_no_grad_uniform_",
                              "_no_grad_zero_",
                              "_pack_padded_sequence",
                              "_pack_sequence",
                              "_pad_circular",
                              "_pad_enum",
                              "_pad_packed_sequence",
                              "_reshape_from_tensor",
                              "_set_item",
                              "_shape_as_tensor",
                              "_size_if_not_equal",
                              "_softmax",
                              "_stack",
                              "_tensor_to_list",
                              "_transformer_encoder_layer_fwd",
                              "_trilinear",
                              "_unique",
                              "_unique2",
                              "_unwrap_optional",
                              "_upsample_bicubic2d_aa",
                              "_upsample_bilinear2d_aa",
                              "_upsample_lanczos2d_aa",
                              "_upsample_nearest_exact1d",
                              "_upsample_nearest_exact2d",
                              "_upsample_nearest_exact3d",
                              "_weight_norm"};
  return names;
}

/// Operators of ATen that reach files, the process-wide generator, other
/// storage than a tensor's, or the autograd of others.
const OpSet& operators_that_reach_out() {
  static const OpSet names = {
      "Generator",   "backward",          "from_file",     "initial_seed",
      "manual_seed", "pin_memory",        "record_stream", "resize_",
      "resize_as_",  "resize_as_sparse_", "save",          "seed",
      "set_",        "set_data",          "wait"};
  return names;
}

/// Kernels that believe what they are given: packed weights that are pointers,
/// and indices that a forward has checked.
bool trusts_its_arguments(std::string_view name) {
  constexpr std::string_view kBegins[] = {"cudnn_", "fbgemm_", "miopen_",
                                          "mkldnn_", "quantized_"};
  return name.find("_backward") != std::string_view::npos ||
         std::any_of(
             std::begin(kBegins), std::end(kBegins),
             [&](std::string_view begin) { return name.starts_with(begin); });
}

/// Whether values of a type are numbers, texts, tensors, or made of those.
bool is_type_of_values(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::StorageType:
    case c10::TypeKind::StreamObjType:
    case c10::TypeKind::FutureType:
    case c10::TypeKind::AwaitType:
    case c10::TypeKind::RRefType:
    case c10::TypeKind::ClassType:
    case c10::TypeKind::InterfaceType:
    case c10::TypeKind::AnyClassType:
    case c10::TypeKind::PyObjectType:
    case c10::TypeKind::CapsuleType:
    case c10::TypeKind::FunctionType:
    case c10::TypeKind::QuantizerType:
    case c10::TypeKind::DynamicType:
      return false;
    default:
      break;
  }
  for (const c10::TypePtr& part : type.containedTypes())
    if (!is_type_of_values(*part)) return false;
  return true;
}

bool takes_and_gives_values(const c10::FunctionSchema& schema) {
  for (const auto* side : {&schema.arguments(), &schema.returns()})
    for (const c10::Argument& argument : *side)
      if (!is_type_of_values(*argument.type())) return false;
  return true;
}

bool computes_in_aten(const jit::Node& node, std::string_view name) {
  if (operators_that_reach_out().contains(name)) return false;
  if (trusts_its_arguments(name)) return false;
  const bool is_internal = name.starts_with("_") && !name.starts_with("__");
  if (is_internal && !internals_in_scripts().contains(name)) return false;
  const c10::FunctionSchema* schema = node.maybeSchema();
  return schema != nullptr && takes_and_gives_values(*schema);
}

bool computes(const jit::Node& node) {
  const std::string_view space = node.kind().ns().toUnqualString();
  const std::string_view name = node.kind().toUnqualString();
  if (space == "prim") return language_operators().contains(name);
  return space == "aten" && computes_in_aten(node, name);
}

/// Walks over a module's functions, each once.
class OperatorWalk {
 public:
  OperatorWalk(const jit::Module& module, const std::string& file)
      : module_(module), file_(file) {}

  void check() {
    for (jit::Function* function :
         module_._ivalue()->compilation_unit()->get_functions())
      check(*function);
    for (const jit::Module& each : module_.modules()) check(*each.type());
    for (const auto& [function, nodes] : nodes_) check_size(*function, nodes);
  }

 private:
  /// Nodes of a graph once all calls are replaced.
  static constexpr std::uint64_t kMostNodes = 2'000'000;

  void check(const c10::ClassType& type) {
    for (const auto* functions :
         {&type.methods(), &type.getForwardHooks(), &type.getForwardPreHooks()})
      for (jit::Function* function : *functions) check(*function);
  }

  /// Number of the function's nodes, with those of what it calls.
  std::uint64_t check(jit::Function& function) {
    const auto known = nodes_.find(&function);
    if (known != nodes_.end()) return known->second;
    nodes_[&function] = 0;  // until it is counted: TorchScript has no recursion
    jit::GraphFunction* graph = jit::tryToGraphFunction(function);
    if (graph == nullptr)
      refuse_script(file_, "'{}' is code of C++", function.name());
    graph->ensure_defined();
    const std::uint64_t nodes = check(*graph->graph()->block(), function);
    nodes_[&function] = nodes;
    return nodes;
  }

  std::uint64_t check(jit::Block& block, const jit::Function& function) {
    std::uint64_t nodes = 0;
    for (jit::Node* node : block.nodes()) {
      if (!computes(*node) || leaves_script(node)) refuse(*node, function);
      nodes += 1 + nodes_called_by(node);
      for (jit::Block* inner : node->blocks()) nodes += check(*inner, function);
      if (node->hasAttribute(c10::attr::Subgraph))
        nodes += check(*node->g(c10::attr::Subgraph)->block(), function);
      nodes = std::min(nodes, kMostNodes + 1);
    }
    return nodes;
  }

  std::uint64_t nodes_called_by(jit::Node* node) {
    jit::GraphFunction* called = jit::tryToGraphFunction(node);
    return called == nullptr ? 0 : check(*called);
  }

  /// Whether a node makes an object of C++ code (torch.classes), calls a method
  /// of one, or a function that isn't TorchScript's.
  static bool leaves_script(jit::Node* node) {
    for (const jit::Value* value : node->outputs())
      if (is_class_of_cpp(*value->type())) return true;
    const bool calls = node->kind() == c10::prim::CallFunction ||
                       (node->kind() == c10::prim::CallMethod &&
                        node->input(0)->type()->cast<c10::ClassType>());
    return calls && jit::tryToGraphFunction(node) == nullptr;
  }

  static bool is_class_of_cpp(const c10::Type& type) {
    const auto* named = type.castRaw<c10::ClassType>();
    return named != nullptr && named->name() &&
           named->name()->qualifiedName().starts_with(
               "__torch__.torch.classes.");
  }

  [[noreturn]] void refuse(const jit::Node& node,
                           const jit::Function& function) const {
    refuse_script(file_,
                  "'{}' calls {}, which is no operator that a network of a "
                  "stranger computes with",
                  function.qualname().qualifiedName(),
                  node.kind().toQualString());
  }

  void check_size(const jit::Function& function, std::uint64_t nodes) const {
    if (nodes > kMostNodes)
      refuse_script(file_,
                    "'{}' has more than {} operations, with those of what it "
                    "calls",
                    function.qualname().qualifiedName(), kMostNodes);
  }

  const jit::Module& module_;
  const std::string& file_;
  std::map<const jit::Function*, std::uint64_t> nodes_;
};

}  // namespace

void check_script_operators(const torch::jit::Module& module,
                            const std::string& file) {
  OperatorWalk(module, file).check();
}

}  // namespace sluice
