#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// Throws UserError, naming `path` and the first sample at fault, when a label
/// is not in [0, classes).
void check_labels(const std::string& path, std::span<const std::uint8_t> labels,
                  std::int64_t classes);

}  // namespace sluice
