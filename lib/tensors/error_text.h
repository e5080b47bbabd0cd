#pragma once

#include <exception>
#include <string>

namespace sluice {

/// What an exception says, on one line: LibTorch's without their stack.
std::string text_of(const std::exception& error);

}  // namespace sluice
