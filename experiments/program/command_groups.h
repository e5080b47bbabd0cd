#pragma once

#include <string_view>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}  // namespace CLI

namespace sluice {

/// Puts the commands under headings by what they are for, and an example under
/// the help of each. program: its name.
void group_commands(CLI::App& app, std::string_view program);

}  // namespace sluice
