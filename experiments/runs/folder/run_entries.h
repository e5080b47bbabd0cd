#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Whether a run writes a file or folder of that name into its folder. All else
/// that lies there is not the run's and stays.
bool is_entry_of_run(std::string_view name);

/// Names of those that an overwritten run loses, as far as they are there.
/// (What it told TensorBoard stays.)
std::vector<std::string> overwritten_entries_in(const std::string& folder);

}  // namespace sluice
