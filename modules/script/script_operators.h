#pragma once

#include <string>

#include <torch/csrc/jit/api/module.h>

namespace sluice {

/// Walks over all methods, functions, hooks and classes of a scripted module
/// that has been loaded and of which nothing has run. Throws UserError, in a
/// line that names operator and function, for what does more than compute:
/// script_operators.cpp has the table. Also for calls that would come to an
/// absurdly large graph once they are replaced by what they call.
void check_script_operators(const torch::jit::Module& module,
                            const std::string& file);

}  // namespace sluice
