#pragma once

#include <exception>
#include <string>

#include <torch/csrc/jit/api/module.h>

namespace sluice {

/// The module of a TorchScript file, on the CPU. Nothing of the file has run,
/// and what it has does no more than compute (script_archive.h,
/// script_operators.h), unless it `is_trusted`: then LibTorch runs what it
/// wants to. Throws UserError, one line, for any other file.
torch::jit::Module load_script(const std::string& file, bool is_trusted);

/// The line of a TorchScript error that says what is wrong, among many.
std::string script_error(const std::exception& error);

}  // namespace sluice
