#pragma once

#include <string>
#include <string_view>

#include "lib/base/config.h"

namespace sluice {

/// Why `name` can't name a folder of ours; empty: it can. It is a name of one
/// file, of no other folder, and says nothing to a terminal.
std::string problem_of_name(std::string_view name);

/// Refuses the value of the key "name" with that.
void check_name(const Fields& fields, std::string_view name);

}  // namespace sluice
