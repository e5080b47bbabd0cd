#pragma once

#include <map>
#include <string>
#include <string_view>

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

// Helpers of the files script_*.cpp for TorchScript's graphs.
namespace sluice {

/// A module that a value of the graph is, and its path from the top.
struct PlacedModule {
  std::string path;
  torch::jit::Module module;
};
using ModuleValues = std::map<const torch::jit::Value*, PlacedModule>;

/// Stands before the first node above a cut while calls are inlined.
inline c10::Symbol cut_mark() {
  return c10::Symbol::fromQualString("sluice::cut");
}

inline bool is_kind(const torch::jit::Node* node, std::string_view name) {
  return name == node->kind().toQualString();
}

inline std::string path_below(const std::string& path,
                              const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/// The module that a GetAttr reads of a known one.
inline void note_module(const torch::jit::Node* node, ModuleValues& modules) {
  if (!is_kind(node, "prim::GetAttr") || !node->output()->type()->is_module())
    return;
  const auto owner = modules.find(node->input(0));
  if (owner == modules.end()) return;
  const std::string name = node->s(c10::attr::name);
  modules[node->output()] =
      PlacedModule{path_below(owner->second.path, name),
                   owner->second.module.attr(name).toModule()};
}

}  // namespace sluice
