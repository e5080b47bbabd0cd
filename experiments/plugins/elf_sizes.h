#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// Reason why the bytes of a shared library are not all of it, by the sizes in
/// its ELF header and tables; empty when they are. The loader maps what those
/// say, and the process ends by SIGBUS at what the file hasn't got.
std::string why_cut_short(std::string_view bytes);

}  // namespace sluice
