#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

namespace sluice {

/// The forward of a module as one graph without calls, with a cut_mark(), whose
/// attribute `name` is the module's path, where it is to be cut. cut_script()
/// says where, and what is thrown.
std::shared_ptr<torch::jit::Graph> marked_forward(
    const torch::jit::Module& module, const std::vector<std::string>& cuts,
    const std::string& file);

}  // namespace sluice
