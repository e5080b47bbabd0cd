#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// What `sluice list methods NAME` prints of a policy or a preset: its own
/// prose, the keys of a preset, and what a simulation says: its timeline in
/// three blocks, and its speed-up in four. Throws UserError with all names for
/// one that is no method.
std::string method_page(std::string_view name);

}  // namespace sluice
