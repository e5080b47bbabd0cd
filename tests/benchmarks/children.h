#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice {

/// Starts this program anew with these arguments, waits for its end, and reads
/// the numbers that it printed. Measurements are processes of their own: what
/// one variant installs or leaves in caches is not the next one's. Throws
/// UserError when it fails or prints other than `count` numbers.
std::vector<double> measured_by_child(const std::string& arguments,
                                      std::size_t count);

}  // namespace sluice
