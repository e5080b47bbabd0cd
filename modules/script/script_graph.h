#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>

namespace sluice {

/// What a part of a scripted graph takes beside the tensor from below: an
/// attribute of the module, or of one in it.
struct ScriptInput {
  enum class Kind : std::uint8_t {
    parameter,
    buffer,    ///< parameters that aren't to be trained too
    mode,      ///< whether it trains
    constant,  ///< read only
  };
  Kind kind = Kind::constant;
  std::string path = {};   ///< as in Python's state_dict: "layer1.0.bn1.weight"
  c10::IValue value = {};  ///< as the file has it; others take copies
};

/// A stretch of a module's forward: a tensor in, a tensor out.
struct ScriptPart {
  std::string name = {};  ///< of the module with which it begins, or "input"
  /// Takes the tensor from below, then `inputs`. Calls nothing of the module,
  /// and dropouts are those of modules/script/scripted_dropout.h. May run in
  /// several threads at a time.
  torch::jit::Code code = {};
  std::vector<ScriptInput> inputs = {};
  /// The module whose functions `code` refers to.
  torch::jit::Module module = {};
};

/// Cuts a module's forward before the first call of each module that `cuts`
/// names ("layer1", "features.5"), in whatever order; empty: before each child
/// with parameters, but the first, where only one tensor passes. The parts, run
/// one after another, do what forward does, in the same order. `file` is for
/// messages.
///
/// Throws UserError, a line that names the culprit, for a cut that forward
/// doesn't come by, that has nothing below it, that more than one tensor
/// passes, or with parameters used on both sides of it; for a forward that
/// takes or gives anything but one tensor, writes attributes, or can't be
/// inlined; and where a dropout or BatchNorm has its mode fixed, as in a trace.
std::vector<ScriptPart> cut_script(const torch::jit::Module& module,
                                   const std::vector<std::string>& cuts,
                                   const std::string& file);

}  // namespace sluice
