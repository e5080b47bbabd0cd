#pragma once

#include <cstdint>
#include <string>

namespace sluice {

/// Throws UserError for a file of so many bytes and zeros among them that it is
/// no text whose bytes are to be learned: UTF-16 has a zero for every second
/// byte, and half of what a model gets right there are these.
void check_is_text(const std::string& path, std::int64_t bytes,
                   std::int64_t zeros);

}  // namespace sluice
