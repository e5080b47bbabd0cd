#pragma once

#include <string>

namespace sluice {

/// Looks at a source of a TorchScript file ("code/__torch__.py") before
/// LibTorch compiles it, and throws UserError, with `file` and `name`, for what
/// would run meanwhile: __setstate__, and defaults of arguments, constants of
/// classes and fields of tuples that are more than values. Also for sources
/// nested so deep that the compiler would run out of its stack.
void check_script_source(const std::string& source, const std::string& file,
                         const std::string& name);

}  // namespace sluice
