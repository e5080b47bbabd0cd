#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// What `sluice list methods NAME` prints: the method's own prose, and what a
/// simulation of it says: its timeline in three blocks, and its speed-up in
/// four. Throws UserError with all names for one that is no method.
std::string method_page(std::string_view name);

}  // namespace sluice
